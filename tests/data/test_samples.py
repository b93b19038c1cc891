"""Samples from every kind of file, streamed, and what is said when a file or a function is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mobuild import usercode
from mobuild.data import Data, Sample, sample_digest, samples
from mobuild.errors import ConfigError, MobuildError, NodeFailed

TRANSFORMS = """\
from pathlib import Path

import numpy as np


def size(path):
    return {"x": np.array([path.stat().st_size], np.float32)}


def tokenize(sample, vocabulary: Path):
    words = vocabulary.read_text().split()
    return {"ids": np.array([words.index(word) for word in sample["text"].split()])}, len(sample["text"])


def misspelt(sample, vocabulry: Path):
    return {}


def double(array):
    return {"x": array * 2}


def breaks(sample):
    raise KeyError("colour")


def forgets(sample):
    pass


def rows(data: Path):
    for line in data.read_text().splitlines():
        yield {"x": np.array([float(line)], np.float32)}, line


def endless():
    number = 0
    while True:
        yield {"x": np.array([number], np.float32)}
        number += 1


def with_size(sample, data: Path):
    return {"x": np.array([data.stat().st_size], np.float32)}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recipe's folder with functions for samples."""
    (tmp_path / "transforms.py").write_text(TRANSFORMS)
    monkeypatch.setattr(usercode, "folder", tmp_path)
    return tmp_path


def read(data: Data, path: Path | None = None, **inputs: Path) -> list[Sample]:
    return list(samples(data, {"data": path, **inputs} if path else inputs))


def said(error: pytest.ExceptionInfo[MobuildError]) -> str:
    return error.value.message


def test_npz_gives_its_rows_and_labels(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.savez_compressed(tmp_path / "a.npz", x=x, mask=np.ones((3, 2), np.int64), label=np.array([5, 6, 7]))

    found = read(Data(npz="a.npz"), tmp_path / "a.npz")

    assert [each.index for each in found] == [0, 1, 2]
    assert [each.label for each in found] == [5, 6, 7]
    assert np.array_equal([each.feeds["x"] for each in found], x)
    assert set(found[0].feeds) == {"x", "mask"}


def test_npz_in_column_order_gives_the_same_rows(tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    np.savez(tmp_path / "a.npz", x=np.asfortranarray(x))

    assert np.array_equal([each.feeds["x"] for each in read(Data(npz="a.npz"), tmp_path / "a.npz")], x)


def test_limit_reads_no_further(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(10))

    assert len(read(Data(npz="a.npz", limit=4), tmp_path / "a.npz")) == 4


def test_jsonl_gives_each_line_to_the_transform_with_further_needs_by_name(folder: Path) -> None:
    (folder / "a.jsonl").write_text('{"text": "b a"}\n\n{"text": "a"}\n')
    (folder / "words.txt").write_text("a b")

    data = Data(jsonl="a.jsonl", transform="transforms.py:tokenize")
    found = read(data, folder / "a.jsonl", vocabulary=folder / "words.txt")

    assert [each.feeds["ids"].tolist() for each in found] == [[1, 0], [0]]
    assert [each.label for each in found] == [3, 1]


def test_jsonl_without_a_transform_gives_arrays_of_the_usual_types(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": [0.5, 1], "ids": [1, 2], "label": "cat"}\n')

    (found,) = read(Data(jsonl="a.jsonl"), tmp_path / "a.jsonl")

    assert found.label == "cat"
    assert (found.feeds["x"].dtype, found.feeds["ids"].dtype) == (np.float32, np.int64)
    assert set(found.feeds) == {"x", "ids"}


def test_images_are_labelled_by_their_folder_and_a_limit_spreads_over_all_folders(folder: Path) -> None:
    for kind in ("cat", "dog"):
        (folder / "images" / kind).mkdir(parents=True)
        for i in range(4):
            (folder / "images" / kind / f"{i}.png").write_bytes(b"x" * (i + 1))
    (folder / "images" / "notes.txt").write_text("not an image")

    found = read(Data(images="images", transform="transforms.py:size", limit=4), folder / "images")

    assert [(each.label, each.feeds["x"].item()) for each in found] == [("cat", 1), ("cat", 3), ("dog", 1), ("dog", 3)]


def test_arrays_are_read_from_npy_with_a_transform_and_from_npz_without(folder: Path) -> None:
    (folder / "one").mkdir()
    (folder / "two").mkdir()
    np.save(folder / "one" / "0.npy", np.ones(3, np.float32))
    np.savez(folder / "two" / "0.npz", x=np.ones(3, np.float32), label=np.int64(4))

    (doubled,) = read(Data(arrays="one", transform="transforms.py:double"), folder / "one")
    (plain,) = read(Data(arrays="two"), folder / "two")

    assert doubled.feeds["x"].tolist() == [2, 2, 2]
    assert (plain.feeds["x"].tolist(), plain.label) == ([1, 1, 1], 4)


def test_an_iterator_gets_the_file_it_names_and_gives_inputs_and_labels(folder: Path) -> None:
    (folder / "a.txt").write_text("1\n2\n")

    found = read(Data(arrays="a.txt", iterator="transforms.py:rows"), folder / "a.txt")

    assert [(each.feeds["x"].item(), each.label) for each in found] == [(1, "1"), (2, "2")]


def test_a_file_beside_an_iterator_that_does_not_read_it_is_refused(folder: Path) -> None:
    (folder / "a.txt").write_text("1\n")

    with pytest.raises(NodeFailed) as caught:
        read(Data(jsonl="a.txt", iterator="transforms.py:endless"), folder / "a.txt")

    assert str(caught.value) == (
        "data: jsonl 'a.txt' beside iterator 'transforms.py:endless', which does not read it: it has no parameter "
        "'data'\n  drop one of the two, or write `def endless(data)`, which gets the path"
    )


def test_a_file_beside_an_iterator_may_be_read_by_the_transform(folder: Path) -> None:
    (folder / "a.txt").write_text("abc")
    data = Data(jsonl="a.txt", iterator="transforms.py:endless", transform="transforms.py:with_size", limit=1)

    (sample,) = read(data, folder / "a.txt")

    assert sample.feeds["x"].tolist() == [3.0]


def test_an_endless_iterator_is_read_up_to_the_limit(folder: Path) -> None:
    found = read(Data(iterator="transforms.py:endless", limit=3))

    assert [each.feeds["x"].item() for each in found] == [0, 1, 2]


def test_a_digest_depends_on_the_inputs_alone() -> None:
    one = Sample(0, {"x": np.zeros(4, np.float32), "y": np.ones(1)}, label=1)
    same = Sample(7, {"y": np.ones(1), "x": np.zeros(8, np.float32)[::2]}, label=2)
    others = [Sample(0, {"x": np.zeros(shape, kind), "y": np.ones(1)}) for shape, kind in ((4, "f8"), ((2, 2), "f4"))]

    digests = {sample_digest(each) for each in (one, same)}

    assert len(digests) == 1
    assert len({*digests, *map(sample_digest, others)}) == 3


def test_a_pickled_npz_is_refused(tmp_path: Path) -> None:
    ragged = np.array([np.zeros(1), np.zeros(2)], dtype=object)
    np.savez(tmp_path / "a.npz", x=ragged)

    with pytest.raises(NodeFailed) as error:
        read(Data(npz="a.npz"), tmp_path / "a.npz")

    assert said(error) == f"'{tmp_path}/a.npz': array 'x' holds pickled Python objects, which are refused"


def test_a_pickled_npy_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object))

    with pytest.raises(NodeFailed) as error:
        read(Data(arrays="."), tmp_path)

    assert said(error) == f"'{tmp_path}/a.npy': holds pickled Python objects, which are refused"


def test_a_pickle_called_npz_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"\x80\x04\x95")

    with pytest.raises(NodeFailed) as error:
        read(Data(npz="a.npz"), tmp_path / "a.npz")

    assert said(error) == f"'{tmp_path}/a.npz': expected an .npz archive, found another file"


def test_arrays_of_different_counts_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)), label=np.zeros(4))

    with pytest.raises(NodeFailed) as error:
        read(Data(npz="a.npz"), tmp_path / "a.npz")

    assert said(error) == (f"'{tmp_path}/a.npz': expected one number of samples in all arrays, found 'label' 4, 'x' 3")


def test_an_npz_array_without_rows_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.float32(3))

    with pytest.raises(NodeFailed) as error:
        read(Data(npz="a.npz"), tmp_path / "a.npz")

    assert said(error) == (f"'{tmp_path}/a.npz': array 'x': expected samples along a first axis, found a single value")


@pytest.mark.parametrize(
    ("line", "found"), [("{", "expected a JSON object, found no JSON"), ("[1]", "expected a JSON object, found a list")]
)
def test_a_bad_line_of_jsonl_is_named(tmp_path: Path, line: str, found: str) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"x": [1]}) + "\n" + line + "\n")

    with pytest.raises(NodeFailed) as error:
        read(Data(jsonl="a.jsonl"), tmp_path / "a.jsonl")

    assert said(error).startswith(f"'{tmp_path}/a.jsonl', line 2: {found}")


def test_a_transform_that_raises_is_named_with_sample_and_line(folder: Path) -> None:
    np.savez(folder / "a.npz", x=np.zeros((2, 2)))

    with pytest.raises(NodeFailed) as error:
        read(Data(npz="a.npz", transform="transforms.py:breaks"), folder / "a.npz")

    assert said(error) == "transform 'transforms.py:breaks', sample 0: KeyError at transforms.py:24: 'colour'"


def test_a_broken_file_of_a_folder_is_named(folder: Path) -> None:
    (folder / "images").mkdir()
    (folder / "images/broken.png").write_bytes(b"x")

    with pytest.raises(NodeFailed) as error:
        read(Data(images="images", transform="transforms.py:breaks"), folder / "images")

    assert said(error).startswith("transform 'transforms.py:breaks', sample 0 ('broken.png'): ")


def test_a_transform_that_returns_nothing_is_told_what_to_return(folder: Path) -> None:
    np.savez(folder / "a.npz", x=np.zeros((2, 2)))

    with pytest.raises(NodeFailed) as error:
        read(Data(npz="a.npz", transform="transforms.py:forgets"), folder / "a.npz")

    assert str(error.value) == (
        "transform 'transforms.py:forgets', sample 0: expected a mapping of input names to arrays, found NoneType\n"
        "  return {input: array without batch}, or ({...}, label)"
    )


def test_a_misspelt_need_of_a_transform_is_named(folder: Path) -> None:
    (folder / "a.jsonl").write_text('{"text": "b a"}\n')

    with pytest.raises(NodeFailed) as error:
        data = Data(jsonl="a.jsonl", transform="transforms.py:misspelt")
        read(data, folder / "a.jsonl", vocabulary=folder / "a.jsonl")

    assert said(error) == (
        "user code 'misspelt': its parameter 'vocabulry' is no input of this node. Did you mean 'vocabulary'?"
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"npz": "a", "jsonl": "b"}, "data: expected one of npz, images, arrays, jsonl, found npz and jsonl"),
        ({"images": "a"}, "data: images need a transform from the file's path to the model's inputs"),
        ({"transform": "a.py:b"}, "data: a transform, but nothing to transform"),
        ({"npz": "a", "limit": -1}, "data: limit: expected 0 (all) or a number of samples, found -1"),
        ({"npz": "a", "format": "jsonl"}, "data: format is 'npz' by the other fields, found 'jsonl'"),
    ],
)
def test_data_that_says_two_things_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Data(**fields)

    assert said(error) == message


def test_a_folder_without_images_says_what_it_holds(folder: Path) -> None:
    (folder / "sounds").mkdir()
    (folder / "sounds" / "a.wav").write_bytes(b"")

    with pytest.raises(NodeFailed) as error:
        read(Data(images="sounds", transform="transforms.py:size"), folder / "sounds")

    assert said(error).startswith(f"'{folder}/sounds': expected files of .bmp, .gif, ")
    assert said(error).endswith("found only .wav")
