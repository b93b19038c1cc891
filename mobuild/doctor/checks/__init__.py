"""The checks: pure functions from a state to findings. Codes are stable.

D0x the driver opens · D1x versions and visibility · D2x cards · D3x the place · D4x software · D5x the
hardware that was asked for · D90 a message that nobody knows · D91 one of
a builder or a runtime.
"""
