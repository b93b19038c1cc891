"""ONNX artifacts: their files, their summary, what of them is no meaning, and data to feed them.

The nodes and backends share this room. It knows the format and nothing of recipes; `onnx`, `numpy` and
`onnxruntime` are imported in the functions that need them.
"""

from __future__ import annotations

from mobuild.onnxmodel.feeds import feeds, other_sizes, trial_sizes
from mobuild.onnxmodel.files import DATA_NAME, MODEL_NAME, data_files, load, model_file, plain_files, save
from mobuild.onnxmodel.session import open_session, run
from mobuild.onnxmodel.strip import strip
from mobuild.onnxmodel.summary import axes, summary

__all__ = [
    "DATA_NAME",
    "MODEL_NAME",
    "axes",
    "data_files",
    "feeds",
    "load",
    "model_file",
    "open_session",
    "other_sizes",
    "plain_files",
    "run",
    "save",
    "strip",
    "summary",
    "trial_sizes",
]
