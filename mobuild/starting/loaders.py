"""The Python beside a recipe that makes a network of its weights, complete or with one function to fill in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from mobuild.starting.classes import Class
from mobuild.starting.contents import Network, Pickled, Weights
from mobuild.starting.recipe import in_docstring, plain
from mobuild.starting.tensors import Tensor

_SHOWN = 40  # tensors in a doc string

_HEAD = '''\
"""Loads the network of recipe {name} from {file}."""

from pathlib import Path

import torch
{imports}

def load(weights: Path) -> torch.nn.Module:
    """The network as it is exported: its forward takes the recipe's inputs in their order and returns tensors."""
'''

_PROGRAM = """\
    program = torch.export.load(weights).module()
    program.eval = lambda: program  # it is as it was exported, and refuses to be told
    return program
"""

_SCRIPT = """\
    return torch.jit.load(weights, map_location="cpu")
"""

_STATE = '''\
    made = network()
    made.load_state_dict(state)
    return made


def network() -> torch.nn.Module:
    """The network that these weights belong to; they hold
{tensors}
    """
{body}'''


def of_network(name: str, file: str, found: Network) -> str:
    return _head(name, file) + (_PROGRAM if found.form == "program" else _SCRIPT)


def of_weights(name: str, file: str, place: str, found: Weights, prefix: str, cls: Class | None) -> str:
    """`place` is the module itself, as errors call it; `prefix` is taken off the names of the weights."""
    is_torch = found.form == "torch"
    imports = "" if is_torch else "from safetensors.torch import load_file\n"
    if cls:
        imports += f"\nfrom {cls.module} import {cls.name}  # its parts bear the names of the weights: is it the one?\n"
    lines = []
    if found.strangers:
        listed = plain(", ".join(found.strangers[:3]))
        lines.append(
            f"# weights_only=True refuses what is pickled beside them, {listed}: False runs it, if you trust it"
        )
    state = 'torch.load(weights, map_location="cpu", weights_only=True)' if is_torch else "load_file(weights)"
    lines.append(f"state = {state}{_part(found.key)}")
    if prefix:
        lines.append(f'state = {{name.removeprefix("{prefix}"): value for name, value in state.items()}}')
    body = "".join(f"    {line}\n" for line in lines)
    return _head(name, file, imports) + body + _STATE.format(tensors=_listed(found.tensors), body=_body(place, cls))


def of_pickle(name: str, file: str, place: str, found: Pickled) -> str:
    what = plain(found.cls)
    package = what.partition(".")[0]
    home = "the class of the script that saved it" if package == "__main__" else f"the package {package}"
    message = _text(f"fill in load() in {place}: {file} is a pickled {found.cls}")
    return _head(name, file) + (
        f"    # A pickled {what}: reading it runs code in it, and takes {home}.\n"
        "    # Better: save its state_dict where it was made. If you trust it, this takes the place of the last line:\n"
        f'    # return torch.load(weights, map_location="cpu", weights_only=False){_part(found.key)}.float()\n'
        f"    raise NotImplementedError({message})\n"
    )


def is_complete(cls: Class | None) -> bool:
    return cls is not None and not cls.needed


def _head(name: str, file: str, imports: str = "") -> str:
    return _HEAD.format(name=name, file=in_docstring(file), imports=imports)


def _body(place: str, cls: Class | None) -> str:
    if cls and not cls.needed:
        return f"    return {cls.name}()\n"
    if cls:
        wanted = f"return {cls.name}({', '.join(f'{name}=…' for name in cls.needed)})"
    else:
        wanted = "import your class and return it, such as Net()"
    return f"    raise NotImplementedError({_text(f'fill in network() in {place}: {wanted}')})\n"


def _part(key: str) -> str:
    return f"[{_text(key)}]" if key else ""


def _text(text: str) -> str:
    """As a text of Python, in one line."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _listed(tensors: Mapping[str, Tensor]) -> str:
    shown: Sequence[str] = [
        f"    {in_docstring(name)}: {each.dtype} {list(each.shape)}" for name, each in tensors.items()
    ]
    more = [f"    and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
    return "\n".join([*shown[:_SHOWN], *more])
