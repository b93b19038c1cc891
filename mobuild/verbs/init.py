"""`mobuild init NAME`: a recipe that builds as it is, to be edited; `mobuild init FILE`: one that begins at a model."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mobuild import pins
from mobuild.adopt.place import Place, named_after
from mobuild.errors import ConfigError, MobuildError, SourceError, StoreError
from mobuild.job import Job
from mobuild.report import checked, messages
from mobuild.starting import example, hub, repository
from mobuild.starting.recipe import SCHEMA
from mobuild.starting.started import Started, start
from mobuild.verbs import build, check
from mobuild.verbs.lock import to_pin

_MADE = ("cache", "build")  # what mobuild makes in a project, and no version control wants
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_VALUES = ("null", "true", "false", "inf", "nan")  # of Hydra's grammar


def init(
    root: Path,
    words: Sequence[str],
    taken: Collection[str],
    compose: Callable[..., Job],
    schema: Callable[[], Mapping[str, Any]],
) -> int:
    """Write a recipe and what it needs beside it, and let git ignore what mobuild makes.

    `words` are a name, a model, or both; `taken` are names that mean a recipe already, which one of the project's
    would hide. `compose` makes the job of a recipe by its name, for the rules to judge.

    Raises:
        ConfigError: the name is no Python name or taken, or a file is there already.
        MobuildError: the model is none that a recipe can begin with; nothing is written then.
    """
    name, model = _taken_apart(words)
    started = _started(name, model, root, taken)
    written = write_new(started.files, root)
    if started.is_remote:
        try:
            started = _fetched(started, root, compose)
        except BaseException:
            for path in [*written, root / "recipes" / f"{started.name}.lock"]:
                path.unlink(missing_ok=True)
            if not any((root / "recipes").iterdir()):
                (root / "recipes").rmdir()
            raise
    for place in [*started.files, *([f"recipes/{started.name}.lock"] if started.is_remote else [])]:
        print(root / place)
    write_schema(root, schema)
    ignore_what_is_made(root / ".gitignore")
    for note in started.notes:
        messages.note(note)
    if model:
        _check(started.name, compose)
    print(f"now: {started.todo}{', then ' * bool(started.todo)}mobuild target=engine recipe={started.name}")
    return 0


def _started(name: str, model: str, root: Path, taken: Collection[str]) -> Started:
    if not model:
        check_name(name, root, taken)
        return Started(name, example.files(name))
    is_of_hub = repository.is_one(model)
    name = name or named_after(f"{repository.named(model)}.hf" if is_of_hub else model)
    check_name(name, root, taken, model)
    if is_of_hub:
        return hub.start(model, name, root)
    place = Place(Path.cwd(), root)
    begin = hub.start_folder if repository.is_folder(place.file(model)) else start
    return begin(Path(model), place, name)


def _fetched(started: Started, root: Path, compose: Callable[..., Job]) -> Started:
    """Pin its sources; and where only a file's content tells how the recipe goes on, build the node that brings it.

    So it lies in the cache, and the build does not fetch it again.

    Raises:
        MobuildError: a source cannot be read, or is none that a recipe can begin with.
    """
    _pin(compose(started.name))
    if not started.finish:
        return started
    errors: list[MobuildError] = []
    _, placed, _ = build.run([compose(started.name, f"target={started.reads}")], errors.append)
    if errors or not placed:
        raise errors[0] if errors else SourceError(f"init: {started.name}: its model did not come")
    finished = started.finish(placed[0].path)
    write_new({place: text for place, text in finished.files.items() if place not in started.files}, root)
    for place in started.files:
        (root / place).write_text(finished.files[place], encoding="utf-8")
    return finished


def _pin(job: Job) -> None:
    """Write the lock file of a new recipe."""
    for path, (_, uris, _) in to_pin([job]).items():
        found: dict[str, pins.Pin] = {}
        for uri in uris:
            messages.note(f"reads {pins.name_of(uri)}")
            found[pins.name_of(uri)] = pins.pin(uri)
        pins.write(path, found)


def _taken_apart(words: Sequence[str]) -> tuple[str, str]:
    """The name and the model among one or two words, in either order; what is not given is empty."""
    models = [word for word in words if _is_model(word)]
    names = [word for word in words if word not in models]
    if not words or len(models) > 1 or len(names) > 1:
        raise ConfigError(
            "init: expected one name, one model, or both",
            "NAME writes an example; mobuild init [NAME] weights.pt (det.onnx, hf:org/name) begins there",
        )
    return "".join(names), "".join(models)


def _is_model(word: str) -> bool:
    """A name is one, whatever lies in the folder; a folder of that name is ./NAME."""
    return repository.is_one(word) or (
        not _NAME.fullmatch(word) and ("/" in word or "." in word or Path(word).exists())
    )


def check_name(name: str, root: Path, taken: Collection[str], model: str = "") -> None:
    """Refuse a name that no recipe can have.

    Raises:
        ConfigError: it is none, or taken.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"init: {name!r} is no name for a recipe", "use small letters, digits and _")
    if name in _VALUES:
        raise ConfigError(
            f"init: recipe={name} means a value and no name", f"choose another name, such as {name}_model"
        )
    other = f"choose another name: mobuild init {name}_2 {model}" if model else "choose another name"
    if name in taken:
        raise ConfigError(f"init: {name!r} is a recipe that mobuild ships", other)
    path = root / "recipes" / f"{name}.yaml"
    if path.exists():
        raise ConfigError(f"init: {path} is there already", f"{other}, or remove it first")
    if not model and (keyword.iskeyword(name) or find_spec(name)):
        raise ConfigError(
            f"init: there is a Python module {name!r} already, which recipes/{name}.py would hide from your code",
            f"choose another name, such as {name}_model",
        )
    if not model and (root / "recipes" / f"{name}.py").exists():
        raise ConfigError(f"init: {path.with_suffix('.py')} is there already", f"{other}, or remove it first")


def write_new(files: Mapping[str, str], root: Path, verb: str = "init") -> list[Path]:
    """Write all files, by path below `root`, or none; what is there already stays.

    Raises:
        StoreError: one cannot be written.
    """
    written: list[Path] = []
    try:
        for place, text in files.items():
            path = root / place
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as stream:
                written.append(path)
                stream.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise StoreError(f"{verb}: {error.filename or root}: cannot be written: {error.strerror}") from error
    return written


def write_schema(root: Path, schema: Callable[[], Mapping[str, Any]]) -> None:
    """Write the schema that the first line of a recipe names for editors, where there is none yet."""
    import json

    path = root / SCHEMA
    if path.exists():
        return
    try:
        path.write_text(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        print(path)
    except OSError as error:
        messages.note(f"{path}: cannot be written: {error.strerror}; it is for editors alone")


def _check(name: str, compose: Callable[..., Job]) -> None:
    """Say what the rules find wrong; that is no failure, since the recipe is there."""
    try:
        found = [each for each in check.merged([compose(name)]) if each.finding]
    except MobuildError as error:
        messages.error(error)
        return
    if found:
        checked.write(found, "text")


def ignore_what_is_made(path: Path) -> None:
    """Let git leave out cache/ and build/; what is written about them already stays as it is."""
    try:
        written = path.read_bytes() if path.exists() else b""
        missing = [folder for folder in _MADE if folder not in _folders(written)]
        if missing:
            is_open = bool(written) and not written.endswith(b"\n")
            with path.open("ab") as stream:
                stream.write(b"\n" * is_open + "".join(f"/{folder}/\n" for folder in missing).encode())
            print(path)
    except OSError as error:
        messages.note(f"{path}: cannot be written: {error.strerror}; cache/ and build/ are for no version control")


def _folders(written: bytes) -> set[str]:
    """The folders of the root that a .gitignore speaks of, whatever it says about them."""
    lines = written.decode("utf-8", "replace").splitlines()
    return {line.strip().lstrip("!/").removeprefix("**/").partition("/")[0] for line in lines}
