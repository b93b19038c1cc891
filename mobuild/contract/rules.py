"""All rules: `check` judges a configuration, `check_model` a model on its way into an engine."""

from __future__ import annotations

from collections.abc import Callable

from mobuild.contract import formats, memory, operators, precision, profiles, quantisation, tokens
from mobuild.contract.configuration import check
from mobuild.contract.findings import Finding
from mobuild.contract.request import Machine, Model, Request

__all__ = ["Machine", "Model", "Request", "check", "check_model"]

Findings = tuple[Finding, ...]

OF_MODELS: tuple[Callable[[Model], Findings], ...] = (
    formats.parser_reads,
    formats.names_are_single,
    formats.types_are_known,
    formats.batch_is_dynamic,
    formats.axes_are_named,
    formats.size_is_held,
    formats.something_is_computed,
    operators.operators_are_taken,
    operators.nodes_are_taken,
    operators.branches_are_taken,
    operators.quantisers_are_taken,
    quantisation.something_is_quantised,
    precision.float32_is_built,
    profiles.shapes_fit,
    profiles.sizes_are_held,
    profiles.axes_have_names_of_their_own,
    profiles.data_fits,
    profiles.maximum_is_needed,
    memory.engine_fits,
    tokens.tables_hold_the_vocabulary,
    tokens.tables_hold_the_tokens,
)


def check_model(model: Model) -> Findings:
    """All findings about a model, in the order of the rules."""
    return tuple(finding for rule in OF_MODELS for finding in rule(model))
