"""Doctor: what is wrong with the machine, before a build fails on it with a riddle.

`survey` asks the machine through one small layer (`machine`), so that a recording stands for a machine in
tests and in letters to us; what it found is plain values (`state`). The checks are pure functions of those
and of the hardware that was asked for. They import no CUDA, torch or builder.
"""
