"""The static closure: every first-party file that a reference can reach, by meaning."""

from __future__ import annotations

import ast
import dataclasses
import sys
from pathlib import Path

import pytest

from mobuild import syntax, toolchain
from mobuild.closure import Closure, closure, module_digest
from mobuild.errors import ConfigError
from mobuild.toolchain import Environment


@pytest.fixture(scope="module")
def host() -> Environment:
    return toolchain.host()


def write(root: Path, **files: str) -> None:
    """`pkg__sub__init=...` is `pkg/sub/__init__.py`; a single `_` stays."""
    for name, text in files.items():
        package = name.endswith("__init")
        parts = name.removesuffix("__init").split("__")
        path = root.joinpath(*parts, "__init__.py") if package else root.joinpath(*parts).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def of(root: Path, host: Environment, reference: str = "det.py:load") -> Closure:
    return closure(reference, root, root, host)


def test_the_src_folder_of_a_project_is_looked_into(tmp_path, host):
    write(tmp_path, recipes__det="from vision.net import build\n", src__vision__init="", src__vision__net="build = 1\n")

    found = closure("det.py:load", tmp_path / "recipes", tmp_path, host)

    assert set(found.modules) == {"det", "vision", "vision.net"}


def test_what_is_installed_comes_before_the_src_folder(tmp_path, host):
    write(tmp_path, det="import vision\n", src__vision="WHERE = 'src'\n", installed__vision="WHERE = 'installed'\n")
    environment = dataclasses.replace(host, paths=(str(tmp_path / "installed"),))

    found = closure("det.py:load", tmp_path, tmp_path, environment)

    assert found.places["vision"] == tmp_path / "installed" / "vision.py"


def test_closure_follows_late_conditional_and_nested_imports(tmp_path, host):
    write(
        tmp_path,
        det="import json\nimport helper\ntry:\n    import fast\nexcept ImportError:\n    fast = None\n",
        helper="def late():\n    from pkg.sub import thing\n",
        pkg__init="",
        pkg__sub__init="",
        pkg__sub__thing="import torch, numpy.linalg as la\n",
        unused="",
    )

    found = of(tmp_path, host)

    assert list(found.modules) == ["det", "helper", "pkg", "pkg.sub", "pkg.sub.thing"]
    assert found.imports == ("numpy", "torch")
    assert found.missing == ("fast",)
    assert found.files == tuple(
        sorted(
            tmp_path / name
            for name in ("det.py", "helper.py", "pkg/__init__.py", "pkg/sub/__init__.py", "pkg/sub/thing.py")
        )
    )


def test_nothing_is_imported(tmp_path, host):
    write(tmp_path, det="import boom.inner\n", boom__init="raise SystemExit", boom__inner="raise SystemExit")

    found = of(tmp_path, host)

    assert list(found.modules) == ["boom", "boom.inner", "det"]
    assert "boom" not in sys.modules


def test_relative_imports_are_taken_within_the_package(tmp_path, host):
    write(
        tmp_path,
        pkg__init="from . import first",
        pkg__first="from .second import x\nfrom ..outside import y\n",
        pkg__second="from .inner import z",
        pkg__inner__init="from .. import third",
        pkg__third="",
    )

    found = of(tmp_path, host, "pkg.first:load")

    assert list(found.modules) == ["pkg", "pkg.first", "pkg.inner", "pkg.second", "pkg.third"]
    assert found.missing == ("..outside",)


def test_namespace_package_is_followed(tmp_path, host):
    write(tmp_path, det="from space.tools import crop", space__tools="")

    assert list(of(tmp_path, host).modules) == ["det", "space.tools"]


def test_name_imported_from_a_package_is_no_missing_module(tmp_path, host):
    write(tmp_path, det="from pkg import value, part", pkg__init="value = 1", pkg__part="")

    found = of(tmp_path, host)

    assert list(found.modules) == ["det", "pkg", "pkg.part"]
    assert found.missing == ()


def test_file_beside_the_recipe_shadows_an_installed_package(tmp_path, host):
    write(tmp_path, det="import xxhash", xxhash="")

    found = of(tmp_path, host)

    assert (list(found.modules), found.imports) == (["det", "xxhash"], ())


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("x = 1\n", "# why\nx  =  1  # one\n\n", True),
        ("def f():\n    return 1\n", 'def f():\n    """Say."""\n    return 1\n', True),
        ('"""Old."""\nx = 1', '"""New."""\nx = 1', True),
        ("x = 1  # type: ignore\n", "\nx = 1\n", True),
        ("x = 1", "x = 2", False),
        (
            "def f(a):\n    # type: (int) -> int\n    return a",
            "def f(a):\n    # type: (float) -> int\n    return a",
            False,
        ),
        ("x = (1,  # type: int\n)", "x = (1,\n)", True),
        ("x = 'a'", "x = b'a'", False),
        ("def f(a, b): pass", "def f(b, a): pass", False),
    ],
)
def test_digest_holds_meaning_alone(tmp_path, old, new, same):
    (tmp_path / "a.py").write_text(old)
    (tmp_path / "b.py").write_text(new)

    assert (module_digest(tmp_path / "a.py") == module_digest(tmp_path / "b.py")) is same


def test_edit_changes_the_digest_of_that_module_alone(tmp_path, host):
    write(tmp_path, det="import helper\nimport other", helper="x = 1", other="y = 1")
    before = of(tmp_path, host).modules
    (tmp_path / "helper.py").write_text("x = 2")

    after = of(tmp_path, host).modules

    assert [name for name in after if after[name] != before[name]] == ["helper"]


def test_compiled_module_counts_by_its_bytes(tmp_path, host):
    write(tmp_path, det="import native")
    library = tmp_path / "native.cpython-38-x86_64-linux-gnu.so"
    library.write_bytes(b"\x7fELF")

    found = closure("det.py:load", tmp_path, tmp_path, host, digest_of=lambda path: f"bytes of {path.name}")

    assert found.modules["native"] == f"bytes of {library.name}"
    assert library in found.files


def test_editable_install_is_first_party(tmp_path, host):
    recipes, tree = tmp_path / "recipes", tmp_path / "src"
    write(recipes, det="import mylib.model")
    write(tree, mylib__init="", mylib__model="")
    environment = dataclasses.replace(host, paths=(*host.paths, str(tree)))

    assert list(of(recipes, environment).modules) == ["det", "mylib", "mylib.model"]


def test_our_own_package_is_no_user_code(tmp_path, host):
    write(tmp_path, det="from mobuild.errors import NodeFailed")

    found = of(tmp_path, host)

    assert (list(found.modules), found.imports, found.missing) == (["det"], (), ())


def test_reference_into_an_installed_package_counts_by_its_distribution(tmp_path, host):
    found = of(tmp_path, host, "xxhash:xxh3_128")

    assert (found.modules, found.imports) == ({}, ("xxhash",))


def test_two_files_of_one_stem_keep_two_names(tmp_path, host):
    write(tmp_path, enc__model="", dec__model="")

    assert list(of(tmp_path, host, "enc/model.py:load").modules) == ["enc/model"]


def test_file_that_imports_from_a_package_of_its_name_counts_beside_it(tmp_path, host):
    write(tmp_path, train="from train.loop import run\n", train__init="", train__loop="run = 1\n")
    before = of(tmp_path, host, "train.py:main").modules

    write(tmp_path, train="from train.loop import run\nGAIN = 2\n")
    after = of(tmp_path, host, "train.py:main").modules

    assert set(before) == {"train", "train/__init__.py", "train.loop"}
    assert {name for name in before if before[name] != after[name]} == {"train"}


def test_code_of_any_depth_has_a_digest(tmp_path, host):
    chain = "".join(f"    elif x == {i}:\n        return {i}\n" for i in range(900))
    write(tmp_path, det=f"def load(x):\n    if x:\n        return 0\n{chain}# a comment\n")
    before = of(tmp_path, host).modules

    write(tmp_path, det=f"def load(x):\n    if x:\n        return 0\n{chain}# another one\n")

    assert of(tmp_path, host).modules == before


def test_the_digest_of_deep_code_is_made_as_that_of_other_code():
    tree = ast.parse(Path(syntax.__file__).read_bytes())

    assert syntax._dumped(tree) == ast.dump(tree)


def test_syntax_error_names_file_and_line(tmp_path, host):
    write(tmp_path, det="import helper", helper="x = 1\ndef f(:\n")

    with pytest.raises(ConfigError) as caught:
        of(tmp_path, host)

    assert caught.value.message == f"{tmp_path}/helper.py:2: not valid Python: invalid syntax"


def test_syntax_of_a_newer_python_counts_by_its_bytes(tmp_path, host):
    write(tmp_path, det="def first[T](items: list[T]) -> T: ...")
    newer = dataclasses.replace(host, version="3.99.0")

    before = of(tmp_path, newer).modules
    write(tmp_path, det="def first[T](items: list[T]) -> T: return items[0]")

    assert of(tmp_path, newer).modules != before


def test_missing_module_names_where_it_was_looked_for(tmp_path, host):
    with pytest.raises(ConfigError) as caught:
        of(tmp_path, host, "nowhere.model:load")

    assert caught.value.message == (f"user code 'nowhere.model:load': no module 'nowhere.model' for {sys.executable}")


def test_reference_without_a_colon_says_the_form(tmp_path, host):
    with pytest.raises(ConfigError) as caught:
        of(tmp_path, host, "det.py")

    assert str(caught.value) == (
        "user code 'det.py': expected 'file.py:attribute' or 'package.module:attribute'\n  for example 'det.py:load'"
    )
