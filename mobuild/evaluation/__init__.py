"""Forms of one model on one set of samples: running them, keeping their outputs, scoring them.

Kinds `reference` and `validate` share this room. Reading samples is `mobuild.data`'s, arithmetic on outputs and
scores `mobuild.metrics`'s. Heavy libraries are imported in the functions that need them.
"""

from __future__ import annotations
