"""Removes from an ONNX model what is not meaning, so that equal models have equal bytes.

Exporters write stack traces, folder names, doc strings, their own version and the newest IR version that they know
into the file. None of it
changes a result; all of it changes the digest, and folder names of the build machine would travel into
images.
"""

from __future__ import annotations

from typing import Any

from mobuild.onnxmodel.stamp import restamp
from mobuild.onnxmodel.walk import graphs, nodes, tensors

KEPT_PREFIX = "mobuild."


def strip(model: Any) -> None:
    """Clear names of tools and places from `model`, in place, and lower its IR version to what it needs; metadata of
    mobuild's own stays."""
    for field in ("producer_name", "producer_version", "domain", "doc_string", "model_version"):
        model.ClearField(field)
    kept = sorted((each.key, each.value) for each in model.metadata_props if each.key.startswith(KEPT_PREFIX))
    del model.metadata_props[:]
    for key, value in kept:
        model.metadata_props.add(key=key, value=value)
    _strip_graphs(model)
    for owner in (*nodes(model), *model.functions, *tensors(model)):
        _clear(owner)
    for node in nodes(model):
        for attribute in node.attribute:
            attribute.ClearField("doc_string")
    restamp(model)


def _strip_graphs(model: Any) -> None:
    model.graph.name = "graph"  # the checker wants a name; exporters put class or file names there
    for graph in graphs(model):
        _clear(graph)
        for value in (*graph.input, *graph.output, *graph.value_info):
            _clear(value)
    for function in model.functions:
        for value in function.value_info:
            _clear(value)


def _clear(owner: Any) -> None:
    for field in ("doc_string", "metadata_props"):
        if field in owner.DESCRIPTOR.fields_by_name:  # older onnx has fewer of them
            owner.ClearField(field)
