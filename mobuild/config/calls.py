"""What the bare words of a command line ask for: a verb, and the word after it.

The first bare word is the verb. A second one is a target, a name or a path, as the verb has it; everything else
is an override.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mobuild.config.overrides import Words, value_of
from mobuild.errors import ConfigError, did_you_mean

VERBS = (
    "build",
    "plan",
    "why",
    "compare",
    "check",
    "graph",
    "list",
    "init",
    "adopt",
    "schema",
    "path",
    "log",
    "command",
    "shell",
    "inspect",
    "verify",
    "pin",
    "cache",
    "gc",
    "lock",
    "doctor",
    "clean",
)
_OF_A_TARGET = ("path", "log", "command", "shell")
_OF_A_NAME = ("pin", "inspect")
_OF_RUNS = ("why",)
_OF_A_SUBVERB = {"cache": {"export": "export", "import": "import_file", "key": "key"}}  # verb → its sub-verb → function
_OF_THE_CACHE = ("import_file", "gc", "inspect", "verify_all", "list_pins", "unpin", "between")
_FORMATS = {
    "check": ("text", "json", "sarif"),
    "compare": ("text", "json", "markdown"),
    "graph": ("text", "mermaid", "dot"),
    "inspect": ("text", "json", "in-toto"),
    **dict.fromkeys(("plan", "why", "list", "verify", "pin", "gc", "doctor", "cache", "adopt"), ("text", "json")),
}  # any other verb has words alone
_DRAWN = ("svg", "png", "pdf")  # pictures that Graphviz makes


@dataclass(frozen=True)
class Call:
    """A verb's function and the bare words that it takes after the jobs.

    A function `of_the_cache` gets settings in place of jobs, so it needs no recipe.
    """

    verb: str
    function: str
    words: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()  # what the bare words stand for

    @property
    def tells_refusals(self) -> bool:
        """Whether it takes the jobs that rules refuse to make as well, after the others."""
        return self.function == "check"

    @property
    def of_the_cache(self) -> bool:
        return self.function in _OF_THE_CACHE


def verb_of(bare: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The verb and the bare words after it.

    Raises:
        ConfigError: the first bare word is no verb.
    """
    if not bare:
        return "build", ()
    if bare[0] not in VERBS:
        raise ConfigError(
            f"there is no verb {bare[0]!r}.{did_you_mean(bare[0], VERBS)}",
            f"Verbs: {', '.join(VERBS)}; mobuild --help\nOverrides have an '=': target={bare[0]}",
        )
    return bare[0], tuple(bare[1:])


def call_for(verb: str, bare: tuple[str, ...], words: Words) -> Call:
    """What to run for a verb with jobs or of the cache.

    Raises:
        ConfigError: a word too many or too few, two targets, or a sweep of a verb that looks at the cache alone.
    """
    if verb in _OF_A_SUBVERB:
        return _checked(_subverb(verb, bare), words)
    if verb == "compare" and len(bare) != 2:
        raise ConfigError(
            f"compare: expected two revisions or runs, found {len(bare)}",
            "mobuild compare v1.3 HEAD; '.' is the working tree, latest the last run",
        )
    if len(bare) > (2 if verb in (*_OF_RUNS, "compare") else 1 if verb in _OF_A_TARGET + _OF_A_NAME else 0):
        raise ConfigError(f"{verb}: what is {bare[-1]!r}?", f"overrides have an '=': target={bare[-1]}")
    if verb in _OF_RUNS and len(bare) == 1:
        raise ConfigError(
            f"{verb} {bare[0]}: expected two runs, or none",
            f"mobuild {verb} {bare[0]} latest; overrides have an '=': target={bare[0]}",
        )
    if verb == "inspect" and not bare:
        raise ConfigError("inspect: expected one path", "mobuild inspect PATH tells what that file was made of")
    if verb in _OF_A_TARGET:
        call = Call(verb, verb, overrides=_target(verb, bare, words))
    else:
        call = Call(verb, _function(verb, bare, words), bare)
    return _checked(call, words)


def _checked(call: Call, words: Words) -> Call:
    if call.of_the_cache and words.multirun:
        raise ConfigError(f"{call.verb} -m: looks at one cache, so there is nothing to sweep over", "leave -m out")
    return call


def _subverb(verb: str, bare: tuple[str, ...]) -> Call:
    """`cache export FILE`: a verb of several, and perhaps a file."""
    known = _OF_A_SUBVERB[verb]
    if not bare or bare[0] not in known:
        said = f"what is {bare[0]!r}?{did_you_mean(bare[0], known)}" if bare else f"expected {', '.join(known)}"
        raise ConfigError(f"{verb}: {said}", f"mobuild {verb} export target=… [FILE], import FILE, key target=…")
    if len(bare) > (1 if bare[0] == "key" else 2):
        raise ConfigError(f"{verb} {bare[0]}: what is {bare[-1]!r}?", f"overrides have an '=': target={bare[-1]}")
    if bare == ("import",):
        raise ConfigError(f"{verb} import: expected one file", f"mobuild {verb} import FILE")
    return Call(verb, known[bare[0]], bare[1:])


def _target(verb: str, bare: tuple[str, ...], words: Words) -> tuple[str, ...]:
    """`path engine` means `target=engine`."""
    if bare and value_of(words.overrides, "target") is not None:
        raise ConfigError(f"{verb} {bare[0]} beside target=…: which of them?", "drop one of them")
    return tuple(f"target={word}" for word in bare)


def _function(verb: str, bare: tuple[str, ...], words: Words) -> str:
    if verb == "verify" and value_of(words.overrides, "target") is None:
        return "verify_all"
    if verb == "why" and bare:
        return "between"
    if verb == "pin" and not bare:
        return "list_pins"
    if verb == "pin" and str(value_of(words.overrides, "pin.remove")).lower() == "true":
        return "unpin"
    return verb


def check_format(verb: str, found: str) -> None:
    """Refuse a `format=` that the verb does not write.

    Raises:
        ConfigError: names those that it has, and the verbs that have the wanted one.
    """
    known = _FORMATS.get(verb, ("text",))
    if found in known:
        return
    others = [each for each, formats in _FORMATS.items() if found in formats]
    hint = f"verbs with format={found}: {', '.join(others)}" if others else ""
    if verb == "graph" and found in _DRAWN:
        hint = f"mobuild graph format=dot … | dot -T{found} > steps.{found}, by Graphviz"
    one_of, near = "one of " * bool(known[1:]), did_you_mean(found, known)
    raise ConfigError(
        f"{verb}: format: expected {one_of}{', '.join(known)}, found {found!r}{near and '.'}{near}",
        hint or f"mobuild {verb} format={known[-1]}",
    )
