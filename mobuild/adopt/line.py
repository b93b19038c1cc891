"""The line as it was typed: which tool it calls, with which arguments, and what around the call is left out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from mobuild.adopt.recipe import flow
from mobuild.errors import ConfigError

PYTHON_TOOLS = ("onnxsim", "polygraphy")  # called as `python -m …` as well
QUANTIZATION = "onnxruntime.quantization."
_PROGRAMS = ("trtexec", "polygraphy", "onnxsim")
_KNOWN = "trtexec, polygraphy convert, polygraphy run, onnxsim, python -m onnxruntime.quantization.…"
_VARIABLE = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_NEXT = ("&&", "||", ";", "&")
_CUT = re.compile(r"\||\d*>|&>|<|2>&1")
_WEIGHTS = re.compile(r"(?:.*=)?([^=]+\.(?:pt|pth|pth\.tar|ckpt|safetensors|bin|pkl|npz|h5))")
_ONNX = re.compile(r"(?:.*=)?([^=]+\.onnx)")
_PYTHON = re.compile(r"python[\d.]*")
_SCRIPT = (
    "an export is the network's own code: mobuild init NAME writes a recipe and the function that loads the network;\n"
    "any other program is a node of kind command: {kind: command, cmd: …, needs: {…}, out: .onnx}"
)


@dataclass(frozen=True)
class Line:
    """`tool` is `trtexec`, `polygraphy convert`, `onnxsim`, `onnxruntime.quantization.preprocess`, …; `before` are the
    words that led to it (`docker run …`, variables), `after` those of the shell behind it."""

    tool: str
    arguments: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The call itself, as a shell takes it."""
        return self.placed({})

    def placed(self, places: Mapping[str, str]) -> str:
        """The call with places of `cmd` for the files that it names: path → `{in.model}`."""
        called = f"python -m {self.tool}" if self.tool.startswith(QUANTIZATION) else self.tool
        return " ".join([called, *(_placed(word, places) for word in self.arguments)])

    @property
    def variables(self) -> dict[str, str]:
        """Those that stand before the call."""
        return {name: value for word in self.before if "=" in word for name, _, value in [word.partition("=")]}


def begins(word: str) -> bool:
    """Whether a word of mobuild's command line begins a line to adopt: a tool, Python, or a line in quotes."""
    name = PurePath(word).name
    return name in _PROGRAMS or bool(_PYTHON.fullmatch(name)) or (bool(re.search(r"\s", word)) and "=" in word)


def read(words: Sequence[str]) -> Line:
    """The line that `words` are, split by a shell, or as one text.

    Raises:
        ConfigError: there is none, or no tool that mobuild knows is called, or several commands are.
    """
    if len(words) == 1:
        _refuse_several(words[0])
    found = _split(words[0]) if len(words) == 1 else list(words)
    if found and found[0] in ("$", "#", ">"):
        found = found[1:]  # a prompt that was copied along
    if found[-1:] == ["&"]:
        found = found[:-1]  # it may run beside others
    if several := [word for word in found if word in _NEXT or word.endswith(";")]:
        there = "; what follows a cd is typed in that folder" * ("cd" in found)
        raise ConfigError(
            f"adopt: {several[0]!r}: expected one command, found several", f"adopt them one after the other{there}"
        )
    cut = next((i for i, word in enumerate(found) if _CUT.match(word)), len(found))
    found, after = found[:cut], tuple(found[cut:])
    if not found:
        raise ConfigError(
            "adopt: expected a line",
            "mobuild adopt -- trtexec --onnx=det.onnx --saveEngine=det.plan …; "
            "mobuild adopt - < build.sh tells which lines of a script it takes",
        )
    refused = None
    for i, word in enumerate(found):
        try:
            called = _called(PurePath(word).name, found[i + 1 :])
        except ConfigError as error:  # or the name of a folder, of an image: `docker run -v $PWD:/polygraphy …`
            refused = refused or error
            continue
        if called:
            tool, used = called
            return Line(tool, tuple(found[i + 1 + used :]), tuple(found[:i]), after)
    raise refused or _unknown(found)


def _refuse_several(text: str) -> None:
    """Lines of a shell script are commands each; one that begins with a flag goes on with the line before."""
    commands: list[tuple[int, str]] = []
    held, number = "", 0
    for i, line in enumerate(text.splitlines(), 1):
        held, number = (f"{held} {line}", number) if held else (line, i)
        if not held.endswith("\\") and _is_whole(held):
            if (words := _split(held)) and not words[0].startswith("-"):
                commands.append((number, " ".join(held.split())))
            held = ""
        held = held.removesuffix("\\")
    if len(commands) > 1:
        known = [(number, command) for number, command in commands if _has_tool(command)] or commands
        told = "\n".join(f"line {number}: {command}" for number, command in known)
        unset = ", its variables filled in" if any("$" in command for _, command in known) else ""
        raise ConfigError(
            f"adopt: expected one command, found {len(commands)}",
            f"adopt one at a time{unset}: mobuild adopt -- …\n{told}",
        )


def _has_tool(command: str) -> bool:
    words = _split(command)
    return any(_called(PurePath(word).name, words[i + 1 :]) for i, word in enumerate(words))


def _is_whole(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:  # a quote goes on in the next line
        return False
    return True


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text.replace("\\\r\n", " ").replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise ConfigError(f"adopt: the line cannot be split into words: {error}", "is a quote left open?") from error


def _called(name: str, after: Sequence[str]) -> tuple[str, int] | None:
    """The tool that a word calls, and how many of the words after it say which."""
    if name.removesuffix(".exe") == "trtexec":
        return "trtexec", 0
    if name == "onnxsim":
        return "onnxsim", 0
    if name == "polygraphy":
        return _polygraphy(after, 0)
    if _PYTHON.fullmatch(name) and len(after) > 1 and after[0] == "-m":
        if after[1] == "onnxsim" or after[1].startswith(QUANTIZATION):
            return after[1], 2
        if after[1] == "polygraphy":
            return _polygraphy(after[2:], 2)
    return None


def _polygraphy(after: Sequence[str], used: int) -> tuple[str, int]:
    verb = after[0] if after else ""
    if verb not in ("convert", "run"):
        raise ConfigError(
            f"adopt: polygraphy {verb}: builds no engine that a recipe could name",
            "polygraphy convert, or polygraphy run with --save-engine; the sanitized node folds constants already",
        )
    return f"polygraphy {verb}", used + 1


def _unknown(found: Sequence[str]) -> ConfigError:
    command = next((word for word in found if not _VARIABLE.fullmatch(word)), found[0])
    is_script = any(word.endswith(".py") for word in found) or "torch.onnx" in " ".join(found)
    if is_script or _PYTHON.fullmatch(PurePath(command).name):
        return ConfigError(
            f"adopt: {shlex.join(found[:3])}: what a Python script does cannot be read off", _as_node(found) or _SCRIPT
        )
    return ConfigError(f"adopt: {command!r} is no tool that is known here", f"Tools: {_KNOWN}\n{_SCRIPT}")


def _as_node(found: Sequence[str]) -> str:
    """A line that writes an ONNX file, as nodes of a recipe to paste; empty where it names none."""
    outs = [match[1] for word in found if (match := _ONNX.fullmatch(word))]
    if not outs:
        return ""
    weights = next((match[1] for word in found if (match := _WEIGHTS.fullmatch(word))), "")
    command = " ".join(_placed(word, {outs[-1]: "{out}", weights: "{in.weights}"}) for word in found)
    needs = ", needs: {weights: weights}" if weights else ""
    nodes = [f"  weights: {{kind: source, uri: {flow(weights)}}}"] if weights else []
    nodes.append(f"  onnx: {{kind: command, cmd: {flow(command)}{needs}, out: .onnx}}")
    return "\n".join(["as a node of kind command, to paste into a recipe:", "nodes:", *nodes])


def _placed(word: str, places: Mapping[str, str]) -> str:
    """A word as a shell takes it, with the file that it names as a place of `cmd`."""
    before, _, name = word.rpartition("=")
    if name not in places or not name:
        return shlex.quote(word)
    return f"{shlex.quote(before)}={places[name]}" if before else places[name]
