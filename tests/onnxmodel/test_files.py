"""Files of an ONNX artifact: one, or a folder with external data; damage is named."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest
from models import matmul, save_external

from mobuild import onnxmodel
from mobuild.errors import NodeFailed
from mobuild.onnxmodel import files


def test_small_model_is_one_file(tmp_path: Path) -> None:
    onnxmodel.save(matmul(), tmp_path / "m.onnx")

    assert (tmp_path / "m.onnx").is_file()
    assert onnxmodel.data_files(tmp_path / "m.onnx") == ()


def test_model_over_the_limit_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "EXTERNAL_BYTES", 1000)

    onnxmodel.save(matmul(), tmp_path / "m.onnx")

    folder = tmp_path / "m.onnx"
    assert onnxmodel.model_file(folder) == folder / "model.onnx"
    assert onnxmodel.data_files(folder) == (folder / "model.onnx.data",)
    assert onnxmodel.load(folder).graph.initializer[0].raw_data == matmul().graph.initializer[0].raw_data


def test_save_never_overwrites(tmp_path: Path) -> None:
    onnxmodel.save(matmul(), tmp_path / "m.onnx", external=True)
    size_bytes = (tmp_path / "m.onnx" / "model.onnx.data").stat().st_size

    with pytest.raises(NodeFailed, match="a model is never saved over another"):
        onnxmodel.save(matmul(), tmp_path / "m.onnx", external=True)

    assert (tmp_path / "m.onnx" / "model.onnx.data").stat().st_size == size_bytes


def test_folder_without_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(NodeFailed) as caught:
        onnxmodel.model_file(tmp_path)

    assert caught.value.message == (f"folder '{tmp_path}': expected one ONNX file or 'model.onnx', found none")


def test_missing_data_file_is_named(tmp_path: Path) -> None:
    file = save_external(tmp_path / "m")
    (tmp_path / "m" / "w.bin").unlink()

    with pytest.raises(NodeFailed) as caught:
        onnxmodel.load(file)

    assert caught.value.message == f"'{file}': its external data '{tmp_path}/m/w.bin' is missing"


def test_truncated_data_file_is_named(tmp_path: Path) -> None:
    file = save_external(tmp_path / "m")
    os.truncate(tmp_path / "m" / "w.bin", 1000)

    with pytest.raises(NodeFailed) as caught:
        onnxmodel.data_files(file)

    assert caught.value.message == (f"'{tmp_path}/m/w.bin': expected at least 16384 bytes of external data, found 1000")


@pytest.mark.parametrize("location", ["../objects/ab12", "/objects/ab12"])
def test_data_outside_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    file = save_external(tmp_path / "m")
    model = onnx.load(file, load_external_data=False)
    model.graph.initializer[0].external_data[0].value = location
    file.write_bytes(model.SerializeToString())

    with pytest.raises(NodeFailed) as caught:
        onnxmodel.load(file)

    assert caught.value.message == f"'{file}': its external data {location!r} lies outside its folder"


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_links_of_a_model_cache_become_plain_files(tmp_path: Path, link: object) -> None:
    file = save_external(tmp_path / "blobs")
    hub = tmp_path / "hub"
    hub.mkdir()
    for name in ("m.onnx", "w.bin"):
        link(file.with_name(name), hub / name)  # type: ignore[operator]

    plain = onnxmodel.plain_files(hub / "m.onnx", tmp_path / "scratch")

    onnx.load(plain)
    onnxmodel.open_session(plain)


def test_plain_files_are_used_in_place(tmp_path: Path) -> None:
    file = save_external(tmp_path / "m")

    assert onnxmodel.plain_files(file, tmp_path / "scratch") == file


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"\x08\x0a"])
def test_file_that_is_no_model_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "det.onnx"
    file.write_bytes(content)

    with pytest.raises(NodeFailed) as caught:
        onnxmodel.load(file)

    assert caught.value.message.startswith(f"'{file}': expected an ONNX model, found ")
