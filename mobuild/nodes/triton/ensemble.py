"""An ensemble: models as one, where one takes what another gives by the name of the tensor (Triton: ensembles)."""

from __future__ import annotations

from typing import Any, Mapping

from mobuild.errors import Refused

_SIDES = ("input", "output")


def ensemble(
    name: str, models: Mapping[str, Mapping[str, Any]], renames: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """The configuration that joins `models` (name → configuration).

    `renames` says for a model what its tensors are called in the ensemble, where equal names do not mean equal tensors.
    What no model makes is an input of the ensemble, what none takes an output.

    Raises:
        Refused: the models cannot be joined.
    """
    _refuse_unknown(models, renames)
    made: dict[str, tuple[str, Any]] = {}
    taken: dict[str, tuple[str, Any]] = {}
    steps = []
    for model, config in models.items():
        maps = {side: {each["name"]: renames.get(model, {}).get(each["name"], each["name"]) for each in config[side]}
                for side in _SIDES}  # fmt: skip
        for each in config["output"]:
            called = maps["output"][each["name"]]
            if called in made:
                raise Refused(
                    f"ensemble {name!r}: {made[called][0]!r} and {model!r} both make {called!r}",
                    f"renames: {{{model}: {{{each['name']}: other}}}}",
                )
            made[called] = model, each
        for each in config["input"]:
            called = maps["input"][each["name"]]
            _refuse_other(name, called, taken.get(called), (model, each))
            taken.setdefault(called, (model, each))
        steps.append({"model_name": model, "model_version": -1, **{f"{side}_map": _map(maps[side]) for side in _SIDES}})
    for called in made.keys() & taken.keys():
        _refuse_other(name, called, made[called], taken[called])
    _refuse_cycle(name, steps)
    sizes = {config["max_batch_size"] for config in models.values()}
    if 0 in sizes and len(sizes) > 1:
        raise Refused(f"ensemble {name!r}: some of its models are batched and some are not", "max_batch: 0")
    return {
        "name": name,
        "platform": "ensemble",
        "max_batch_size": min(sizes),
        "input": [_outer(taken[each][1], each) for each in taken if each not in made],
        "output": [_outer(made[each][1], each) for each in made if each not in taken],
        "ensemble_scheduling": {"step": steps},
    }


def _map(names: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in names.items()]


def _outer(tensor: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A tensor of the ensemble; reshaping is for the model."""
    return {"name": name, "data_type": tensor["data_type"], "dims": tensor["dims"]}


def _refuse_unknown(models: Mapping[str, Mapping[str, Any]], renames: Mapping[str, Mapping[str, str]]) -> None:
    for model, names in renames.items():
        if model not in models:
            raise Refused(f"renames: there is no model {model!r}", f"models: {', '.join(models)}")
        known = {each["name"] for side in _SIDES for each in models[model][side]}
        for tensor in names:
            if tensor not in known:
                raise Refused(
                    f"renames: {model}: there is no tensor {tensor!r}", f"tensors: {', '.join(sorted(known))}"
                )


def _refuse_other(name: str, called: str, one: Any, other: Any) -> None:
    """Refuse two tensors of one name that cannot be one."""
    if one is None:
        return
    pairs = zip(one[1]["dims"], other[1]["dims"])
    fits = len(one[1]["dims"]) == len(other[1]["dims"]) and all(a == b or -1 in (a, b) for a, b in pairs)
    if one[1]["data_type"] != other[1]["data_type"] or not fits:
        both = " and ".join(f"{each['data_type']} {each['dims']} of {model!r}" for model, each in (one, other))
        raise Refused(f"ensemble {name!r}: {called!r} is {both}", "rename one of them: renames")


def _refuse_cycle(name: str, steps: list[dict[str, Any]]) -> None:
    left = {step["model_name"]: step for step in steps}
    while left:
        waiting = {each["value"] for step in left.values() for each in step["output_map"]}
        ready = [model for model, step in left.items() if not waiting & {each["value"] for each in step["input_map"]}]
        if not ready:
            raise Refused(f"ensemble {name!r}: {', '.join(left)} wait for each other", "rename a tensor: renames")
        for model in ready:
            del left[model]
