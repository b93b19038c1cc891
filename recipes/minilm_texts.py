"""The texts of `minilm`: how they become token numbers, and how well their embeddings find each other.

A sample is one text, `{"text": …, "label": {"pair": 17, "side": "query"}}`; the document of the same pair is what
its query should find first. No torch here: an image takes this file along to serve text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

LONGEST = 128  # tokens; the network was trained on no more
MULTIPLE = 32  # texts are padded to a multiple of it, so that few shapes occur


def tokenize(sample: Mapping[str, Any], tokenizer: Path) -> dict[str, np.ndarray]:
    """One text → `input_ids` and `attention_mask`, (sequence,) int64."""
    encoded = _tokenizer(tokenizer).encode(sample["text"])
    inputs = {"input_ids": encoded.ids, "attention_mask": encoded.attention_mask}
    return {name: np.array(values, np.int64) for name, values in inputs.items()}


@lru_cache(maxsize=1)
def _tokenizer(file: Path) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.enable_truncation(LONGEST)
    tokenizer.enable_padding(pad_to_multiple_of=MULTIPLE)
    return tokenizer


def retrieval(outputs: Mapping[str, np.ndarray], labels: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """For each query: is its document the nearest of all (`recall_at_1`), and 1 / its rank (`mrr`)."""
    embeddings = np.asarray(outputs["embedding"], np.float32)
    queries, documents = (_rows(labels, side) for side in ("query", "document"))
    pairs = sorted(queries.keys() & documents.keys())
    if not pairs:
        raise ValueError(f"no query among {len(labels)} texts comes with its document")
    similarity = embeddings[[queries[pair] for pair in pairs]] @ embeddings[[documents[pair] for pair in pairs]].T
    # Equal similarity counts against the right answer, and so does NaN: a network that says the same of all is no good.
    ranks = len(pairs) - (similarity < np.diag(similarity)[:, None]).sum(1)
    return {"recall_at_1": (ranks == 1).astype(np.float64), "mrr": 1.0 / ranks}


def _rows(labels: Sequence[Mapping[str, Any]], side: str) -> dict[int, int]:
    return {label["pair"]: row for row, label in enumerate(labels) if label["side"] == side}
