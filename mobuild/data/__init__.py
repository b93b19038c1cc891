"""Samples for calibration and evaluation: where they lie, how they are read, and how they fit a model.

The nodes that read samples share this room. Nothing is held whole: samples pass one by one. `numpy` is
imported in the functions that need it.
"""

from __future__ import annotations

from mobuild.data.batching import Batch, batches, check_finite, check_fit
from mobuild.data.feeding import fed
from mobuild.data.samples import Sample, sample_digest, samples
from mobuild.data.spec import Data

__all__ = ["Batch", "Data", "Sample", "batches", "check_finite", "check_fit", "fed", "sample_digest", "samples"]
