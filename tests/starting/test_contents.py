"""What files of models are, told without running anything in them."""

from __future__ import annotations

import argparse
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mobuild.errors import SourceError
from mobuild.starting.contents import Network, Pickled, Weights, look
from mobuild.starting.tensors import Input, Tensor
from tests.starting import saved

TENSORS = {
    "first.weight": Tensor("float32", (16, 8)),
    "first.bias": Tensor("float32", (16,)),
    "last.weight": Tensor("float32", (4, 16)),
    "last.bias": Tensor("float32", (4,)),
}


def looked(path: Path) -> Any:
    return look(path, path.name)


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_state_lists_its_tensors_as_torch_saves_them_since_and_before_1_6(tmp_path: Path, is_zip: bool) -> None:
    torch.save(saved.network().state_dict(), tmp_path / "w.pt", _use_new_zipfile_serialization=is_zip)

    assert looked(tmp_path / "w.pt") == Weights(TENSORS, "torch")


def test_safetensors_lists_its_tensors(tmp_path: Path) -> None:
    assert looked(saved.safetensors(tmp_path / "w.safetensors")) == Weights(TENSORS, "safetensors")


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
)
def test_types_of_tensors_are_told(tmp_path: Path, dtype: str) -> None:
    torch.save({"x": torch.zeros(2, dtype=getattr(torch, dtype))}, tmp_path / "w.pt")

    assert looked(tmp_path / "w.pt").tensors == {"x": Tensor(dtype, (2,))}


def test_parameters_are_tensors(tmp_path: Path) -> None:
    torch.save({"w": torch.nn.Parameter(torch.zeros(2, 3))}, tmp_path / "w.pt")

    assert looked(tmp_path / "w.pt").tensors == {"w": Tensor("float32", (2, 3))}


def test_a_checkpoint_tells_where_its_weights_are_and_what_else_is_pickled(tmp_path: Path) -> None:
    parts = {"epoch": 3, "state_dict": saved.network().state_dict(), "hyper_parameters": argparse.Namespace(a=1)}
    torch.save(parts, tmp_path / "w.ckpt")

    assert looked(tmp_path / "w.ckpt") == Weights(
        TENSORS, "torch", "state_dict", ["epoch", "hyper_parameters"], ("argparse.Namespace",)
    )


@pytest.mark.parametrize("key", ["", "model"])
def test_a_pickled_network_is_named_by_its_class(tmp_path: Path, key: str) -> None:
    torch.save({key: saved.network(), "epoch": 1} if key else saved.network(), tmp_path / "w.pt")

    assert looked(tmp_path / "w.pt") == Pickled("tests.starting.saved.Net", key)


def test_a_traced_script_tells_the_sizes_that_it_was_traced_with(tmp_path: Path) -> None:
    note = "the sizes that it was traced with"

    assert looked(saved.script(tmp_path / "w.pt")) == Network("script", [Input("x", ("batch", 8), note=note)], 1)


def test_a_compiled_script_tells_names_and_its_first_weights(tmp_path: Path) -> None:
    note = "guessed from first.weight [16, 8]"

    found = looked(saved.script(tmp_path / "w.pt", traced=False))

    assert found == Network("script", [Input("x", ("batch", 8), note=note)], 1)


def test_an_exported_program_tells_its_inputs_and_axes(tmp_path: Path) -> None:
    assert looked(saved.program(tmp_path / "w.pt2")) == Network("program", [Input("x", ("batch", 8))], 1)


class Runs:
    """What a hostile pickle holds."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("pickle-was-run",)


@pytest.mark.parametrize("is_zip", [True, False])
def test_nothing_in_a_pickle_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_zip: bool) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(Runs(), tmp_path / "w.pt", _use_new_zipfile_serialization=is_zip)

    assert looked(tmp_path / "w.pt") == Pickled("posix.mkdir")
    assert not (tmp_path / "pickle-was-run").exists()


def archive(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        for name, content in members.items():
            made.writestr(name.replace("__", "/"), content)
    return stream.getvalue()


def arrays() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, x=np.zeros(2))
    return stream.getvalue()


def damaged() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("w/data.pkl", bytes(5000))
    content = stream.getvalue()
    start = content.index(b"w/data.pkl") + len("w/data.pkl")
    return content[:start] + b"\xff" * 8 + content[start + 8 :]


def header(tensors: Any) -> bytes:
    text = json.dumps(tensors).encode()
    return len(text).to_bytes(8, "little") + text


def torch_saved(value: Any) -> Callable[[], bytes]:
    def save() -> bytes:
        stream = io.BytesIO()
        torch.save(value, stream)
        return stream.getvalue()

    return save


WRONG: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "is empty"),
    "an LFS pointer": (
        lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n",
        "is a Git LFS pointer, not the file itself\n  git lfs pull",
    ),
    "a page": (lambda: b"<!DOCTYPE html><html></html>", "is an HTML page, not the file itself"),
    "GGUF": (lambda: b"GGUF\x03\0\0\0", "is GGUF, weights for llama.cpp\n  take the PyTorch or safetensors weights"),
    "TFLite": (lambda: b"\x1c\0\0\0TFL3", "is a TensorFlow Lite model"),
    "Keras": (lambda: b"\x89HDF\r\n\x1a\n", "is an HDF5 file, as Keras writes"),
    "a plan": (lambda: b"ftrt\0\0\0\0", "is a TensorRT plan: already an engine"),
    "gzip": (lambda: b"\x1f\x8b\x08\0", "is compressed (gzip)\n  unpack it first"),
    "text": (lambda: b"weights", "is no file of torch, safetensors or ONNX"),
    "arrays": (arrays, "is an archive of NumPy arrays"),
    "another zip": (lambda: archive(readme=b"hello"), "is a zip archive, not a file of torch's: readme"),
    "a cut zip": (lambda: torch_saved({"x": torch.zeros(64)})()[:200], "is a damaged archive"),
    "an AOTInductor package": (lambda: archive(data__aotinductor__x=b""), "is compiled already (AOTInductor)"),
    "a plain pickle": (lambda: pickle.dumps({"x": 1}), "is a plain pickle, not what torch.save writes"),
    "a pickle of Python 2": (lambda: pickle.dumps({"x": 1}, 2)[:-1], "holds a damaged pickle"),
    "no weights": (
        torch_saved({"epoch": 3, "loss": 0.1}),
        "is a checkpoint without weights by name; it has epoch, loss",
    ),
    "a list": (torch_saved([1, 2]), "holds list, no weights by name"),
    "a damaged member": (damaged, "is a damaged archive: Error -3 while decompressing data"),
    "sizes of letters": (lambda: header({"a": {"dtype": "F32", "shape": ["x"]}}), "is damaged: its header is none of"),
    "half a header": (lambda: (3).to_bytes(8, "little") + b'{"a', "is damaged: its header is none of safetensors"),
}


@pytest.mark.parametrize(("content", "says"), WRONG.values(), ids=WRONG)
def test_what_only_looks_like_weights_is_named(tmp_path: Path, content: Callable[[], bytes], says: str) -> None:
    (tmp_path / "w.pt").write_bytes(content())

    with pytest.raises(SourceError) as caught:
        looked(tmp_path / "w.pt")

    assert str(caught.value).startswith(f"source 'w.pt': {says}")


def test_a_network_within_itself_is_told(tmp_path: Path) -> None:
    network = b"cnet\nNet\n)\x81q\x00}X\x08\x00\x00\x00_modules}X\x04\x00\x00\x00selfh\x00ssb"
    before = b"".join(pickle.dumps(each, 2) for each in (0x1950A86A20F9469CFC6C, 1001, {}))
    (tmp_path / "w.pt").write_bytes(before + b"\x80\x02}X\x05\x00\x00\x00model" + network + b"s.")

    with pytest.raises(SourceError, match="holds a network within itself"):
        looked(tmp_path / "w.pt")


@pytest.mark.parametrize(
    "opcodes", [b".", b"0.", b"R.", b"(.", b"h\x05.", b"u.", b"\x93.", b"\x85.", b"a.", b"b.", b"cos\nsystem\nK\x01R."]
)
def test_a_nonsensical_pickle_is_damaged_and_no_fault_of_ours(tmp_path: Path, opcodes: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "w.pt", "w") as made:
        made.writestr("w/data.pkl", b"\x80\x02" + opcodes)

    with pytest.raises(SourceError, match="holds a damaged pickle"):
        looked(tmp_path / "w.pt")
