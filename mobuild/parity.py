"""Do two forms of one model give the same numbers? Measures, and judges against a tolerance.

Used wherever a step must not change the result: export against torch, sanitize against its input, an
engine against its ONNX model. Task metrics belong to validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mobuild.errors import NodeFailed

ABSOLUTE = 1e-4
RELATIVE = 1e-3
"""fp32 against fp32. Good exports measure 1e-7 to 1e-5; a wrong one is off by far more than these."""


def compare(got: Mapping[str, Any], want: Mapping[str, Any], floor: float = 1e-3) -> dict[str, Any]:
    """How far `got` is from `want`: `{max_abs, max_rel, outputs: {name: {max_abs, max_rel}}}`.

    `max_rel` is the largest |got - want| / max(|want|, floor); `floor` keeps values near zero from
    dominating. Values that are the same NaN or infinity in both do not count.

    Raises:
        NodeFailed: names, shapes or types differ (broadcasting would hide a wrong output), or `got` has a
            NaN or an infinity where `want` has not, or the other way round.
    """
    if list(got) != list(want):
        raise NodeFailed(f"expected the outputs {list(want)}, found {list(got)}")
    outputs = {name: _measure(name, got[name], want[name], floor) for name in want}
    return {
        "max_abs": max((each["max_abs"] for each in outputs.values()), default=0.0),
        "max_rel": max((each["max_rel"] for each in outputs.values()), default=0.0),
        "outputs": outputs,
    }


def assert_close(
    got: Mapping[str, Any],
    want: Mapping[str, Any],
    absolute: float = ABSOLUTE,
    relative: float = RELATIVE,
    where: str = "",
) -> dict[str, Any]:
    """`compare`, and every element within |got - want| <= absolute + relative * |want|.

    `where` ends the message's first half: `at batch=4`.

    Raises:
        NodeFailed: names the output and both numbers; also as `compare`.
    """
    measured = compare(got, want)
    for name, numbers in measured["outputs"].items():
        at = f"output {name!r}{' ' + where if where else ''}"
        _refuse_other_text(at, got[name], want[name])
        worst = _worst(got[name], want[name], absolute, relative)
        if worst is not None:
            place, found, expected = worst
            raise NodeFailed(
                f"{at}: expected {expected:.6g} at {place}, found {found:.6g}; largest difference "
                f"{numbers['max_abs']:.3g} absolute, {numbers['max_rel']:.3g} relative",
                f"allowed: {absolute:g} + {relative:g} * |expected|",
            )
    return measured


def assert_close_in_the_mean(
    got: Mapping[str, Any], want: Mapping[str, Any], share: float, where: str
) -> dict[str, Any]:
    """`compare`, and of every output the root mean square of got - want within `share` of that of want.

    Raises:
        NodeFailed: names the output and both numbers; also as `compare`.
    """
    import numpy as np

    measured = compare(got, want)
    for name in want:
        if np.asarray(want[name]).dtype.kind in "OSU":
            continue
        left, right = _double(got[name]), _double(want[name])
        finite = np.isfinite(right)
        error, size = _root_mean_square(left[finite] - right[finite]), _root_mean_square(right[finite])
        if error > max(ABSOLUTE, share * size):
            raise NodeFailed(
                f"output {name!r}{' ' + where if where else ''}: its values differ by {error:.3g} in the root mean "
                f"square, which is {error / max(size, ABSOLUTE):.3g} of their own {size:.3g}; largest difference "
                f"{measured['outputs'][name]['max_abs']:.3g}",
                f"allowed: {share:g} of it",
            )
    return measured


def _root_mean_square(values: Any) -> float:
    import numpy as np

    return float(np.sqrt(np.mean(values**2))) if values.size else 0.0


def _measure(name: str, got: Any, want: Any, floor: float) -> dict[str, float]:
    import numpy as np

    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        raise NodeFailed(f"output {name!r}: expected shape {list(want.shape)}, found {list(got.shape)}")
    if got.dtype != want.dtype:
        raise NodeFailed(f"output {name!r}: expected type {want.dtype}, found {got.dtype}")
    if got.dtype.kind in "OSU":
        return {"max_abs": float(np.any(got != want)), "max_rel": float(np.any(got != want))}
    left, right = _double(got), _double(want)
    _refuse_nonfinite(name, left, right)
    finite = np.isfinite(right)
    difference = np.abs(left[finite] - right[finite])
    scale = np.maximum(np.abs(right[finite]), floor)
    return {
        "max_abs": float(difference.max(initial=0.0)),
        "max_rel": float((difference / scale).max(initial=0.0)),
    }


def _refuse_nonfinite(name: str, got: Any, want: Any) -> None:
    import numpy as np

    for word, test in (("NaN", np.isnan), ("+infinity", np.isposinf), ("-infinity", np.isneginf)):
        differs = test(got) != test(want)
        if differs.any():
            raise NodeFailed(
                f"output {name!r}: expected {int(test(want).sum())} values of {word}, "
                f"found {int(test(got).sum())} of {got.size}"
            )


def _refuse_other_text(at: str, got: Any, want: Any) -> None:
    import numpy as np

    left, right = np.asarray(got), np.asarray(want)
    if right.dtype.kind in "OSU" and not np.array_equal(left, right):
        place = np.argwhere(np.atleast_1d(left != right))[0]
        found, expected = (np.atleast_1d(each)[tuple(place)] for each in (left, right))
        raise NodeFailed(f"{at}: expected {expected!r} at {[int(i) for i in place]}, found {found!r}")


def _worst(got: Any, want: Any, absolute: float, relative: float) -> Any:
    import numpy as np

    if np.asarray(want).dtype.kind in "OSU":
        return None
    left, right = np.atleast_1d(_double(got)), np.atleast_1d(_double(want))
    with np.errstate(invalid="ignore"):
        excess = np.abs(left - right) - absolute - relative * np.abs(right)
    excess[~np.isfinite(right)] = -1.0
    if not excess.size or excess.max() <= 0:
        return None
    place = np.unravel_index(int(excess.argmax()), excess.shape)
    return [int(i) for i in place], float(left[place]), float(right[place])


def _double(values: Any) -> Any:
    import numpy as np

    return np.asarray(values).astype(np.float64)
