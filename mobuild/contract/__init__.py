"""Contracts: what cannot work is refused before anything is built.

Rules are pure functions from a request to findings, with stable codes; what they know is data in `facts`.
They import no onnx and no builder.
"""
