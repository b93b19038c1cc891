"""Networks that torch itself runs: TorchScript (`torch.jit.save`) and exported programs (`torch.export.save`, `.pt2`).

A file of weights is no network and is refused as such. Opening a file of torch may run code that it holds: open only
what you trust.
"""

from __future__ import annotations

import importlib
import warnings
import zipfile
from pathlib import Path
from typing import Any, Mapping

from .errors import EngineError, RuntimeMissing
from .runner import ANY, Tensor, check_feeds

_PROGRAM = ("serialized_exported_program.json", "models/model.json")  # members of a `.pt2`, by releases of torch


def module() -> Any:
    """The package `torch`."""
    try:
        return importlib.import_module("torch")  # by name: here, `torch` would be this module
    except ImportError as error:
        raise RuntimeMissing(f"torch cannot be imported: {error}", "pip install torch") from error


def open_engine(path: Path, device: str = "cpu") -> TorchEngine:
    """Open a TorchScript file or an exported program.

    Raises:
        RuntimeMissing: torch is not here.
        EngineError: the file holds weights alone, or torch refuses it.
    """
    names = _members(path)
    torch = module()
    is_program = any(name.endswith(_PROGRAM) for name in names)
    if not is_program and not any("/code/" in name for name in names):
        raise EngineError(
            f"'{path}': holds weights and no network",
            "run the ONNX file that is exported from it, or save the network: torch.export.save, torch.jit.save",
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript is deprecated, and its files are there all the same
            return _program(torch, path, device) if is_program else _script(torch, path, device)
    except EngineError:
        raise
    except Exception as error:  # its exceptions share no base class but Exception
        raise EngineError(f"torch {torch.__version__} cannot load '{path}': {error}") from error


class TorchEngine:
    """A network behind the protocol of `runner.Engine`; `names` of outputs are given where the network has none."""

    def __init__(
        self, torch: Any, network: Any, device: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]
    ) -> None:
        self._torch, self._network, self._device = torch, network, device
        self.inputs, self.outputs = inputs, outputs

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        import numpy

        check_feeds(feeds, self.inputs)
        tensors = [self._torch.from_numpy(numpy.array(feeds[one.name])).to(self._device) for one in self.inputs]
        try:
            with self._torch.no_grad():
                answer = self._network(*tensors)
        except Exception as error:  # its exceptions share no base class but Exception
            raise EngineError(f"torch cannot run the network: {error}") from error
        if isinstance(answer, Mapping):
            return {str(name): self._array(str(name), each) for name, each in answer.items()}
        several = list(answer) if isinstance(answer, (tuple, list)) else [answer]
        names = [one.name for one in self.outputs]
        if len(names) != len(several):
            names = _numbered(len(several))
        return {name: self._array(name, each) for name, each in zip(names, several)}

    def _array(self, name: str, value: Any) -> Any:
        """An output for NumPy, which has no bfloat16: float32 holds each of its values."""
        import numpy

        if isinstance(value, (bool, int, float)):
            return numpy.asarray(value)
        if not isinstance(value, self._torch.Tensor):
            raise EngineError(
                f"output {name!r}: expected a tensor, found {type(value).__name__}",
                "let the network return tensors: one, a tuple of them, or a dict of them by name",
            )
        found = value.detach().cpu()
        return (found.float() if found.dtype == self._torch.bfloat16 else found).numpy()


def _members(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(str(path)) as archive:
            return archive.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise EngineError(f"'{path}': is no file of torch's: {error}") from error


def _script(torch: Any, path: Path, device: str) -> TorchEngine:
    """Its signature names the inputs, and tells neither their types nor their sizes."""
    network = torch.jit.load(str(path), map_location=device).eval()
    schema = network.forward.schema
    inputs = tuple(Tensor(each.name, "", ANY) for each in schema.arguments[1:])
    kind = schema.returns[0].type
    count = len(kind.elements()) if kind.kind() == "TupleType" else 1
    is_named = kind.kind() in ("DictType", "ListType")  # by the answer alone
    outputs = () if is_named else tuple(Tensor(name, "", ANY) for name in _numbered(count))
    return TorchEngine(torch, network, device, inputs, outputs)


def _program(torch: Any, path: Path, device: str) -> TorchEngine:
    program = torch.export.load(str(path))
    signature = program.graph_signature
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    inputs = tuple(_tensor(name, values.get(name)) for name in signature.user_inputs)
    outputs = [str(name) for name in signature.user_outputs]
    told = zip(_numbered(len(outputs)), outputs)
    found = tuple(_tensor(name, values.get(inner)) for name, inner in told)
    return TorchEngine(torch, program.module().to(device), device, inputs, found)


def _tensor(name: str, value: Any) -> Tensor:
    if value is None or not hasattr(value, "dtype"):
        return Tensor(name, "", ANY)
    shape = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
    return Tensor(name, str(value.dtype).replace("torch.", ""), shape)


def _numbered(count: int) -> list[str]:
    """As an export names the outputs of a network that names none."""
    return ["output"] if count == 1 else [f"output_{i}" for i in range(count)]
