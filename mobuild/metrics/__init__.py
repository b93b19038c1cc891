"""How good is a form of the model: numbers on its outputs, and task metrics compared in pairs.

Pure functions of arrays and scores. Running models and reading data is `mobuild.evaluation`'s; whether a
number is good enough is judged by the gates.
"""

from __future__ import annotations

from mobuild.metrics.paired import compared, paired, sign_test
from mobuild.metrics.task import Score, check_better, scores
from mobuild.metrics.tensors import Comparison, holds_infinity, refuse_nonfinite

__all__ = [
    "Comparison",
    "Score",
    "check_better",
    "compared",
    "holds_infinity",
    "paired",
    "refuse_nonfinite",
    "scores",
    "sign_test",
]
