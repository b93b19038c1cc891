"""Gets the network out of the user's loader, and says shortly what went wrong in there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mobuild.errors import MobuildError, NodeFailed
from mobuild.nodes.export.frames import plain, user_line, words

_MISMATCH = "Error(s) in loading state_dict for "
_SHOWN = 4


def load(reference: str, inputs: Mapping[str, Path]) -> Any:
    """The module that `reference` makes, in evaluation mode.

    It gets the path of role `weights` if there is one, and those of further needs that it names as parameters. Random
    numbers are seeded, so that a network without weights is the same every time.

    Raises:
        NodeFailed: the loader raises, or returns something else.
    """
    import torch

    from mobuild import usercode

    arguments = [inputs["weights"]] if "weights" in inputs else []
    others = {role: path for role, path in inputs.items() if role != "weights"}
    function = usercode.bound(usercode.resolve(reference), others, positional=len(arguments))
    torch.manual_seed(0)
    try:
        module = function(*arguments)
    except (MobuildError, ImportError):  # a missing package is explained by the worker, which knows the interpreter
        raise
    except Exception as error:
        raise _explained(reference, inputs, error) from error
    if not isinstance(module, torch.nn.Module):
        raise NodeFailed(
            f"loader {reference!r}: expected a torch.nn.Module, found {type(module).__name__}",
            "return the network itself, with its weights loaded",
        )
    return module.eval()


def _explained(reference: str, inputs: Mapping[str, Path], error: Exception) -> NodeFailed:
    at = f" at {user_line(error)}" if user_line(error) else ""
    text = plain(str(error))
    if _MISMATCH not in text:
        weights = inputs.get("weights")
        hint = f"it was given {weights.name!r} of {weights.stat().st_size} bytes" if weights else ""
        return NodeFailed(f"loader {reference!r} raises{at}: {words(error)}", hint)
    network, *rest = text.split(_MISMATCH, 1)[1].splitlines()
    problems = [line.strip()[:300] for line in rest if line.strip()]
    more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
    weights = inputs.get("weights")
    return NodeFailed(
        f"loader {reference!r}: the weights {f'{weights.name!r} ' if weights else ''}do not fit the network "
        f"{network.rstrip(':')!r}",
        "\n".join([*problems[:_SHOWN], *more]),
    )
