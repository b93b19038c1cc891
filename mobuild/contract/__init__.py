"""Contracts: what cannot work is refused before anything is built.

Rules are pure functions with stable codes: of a configuration (`rules.check`), and of a configuration and the
summary of a model (`rules.check_model`). What they know is data in `facts`; they import no onnx and no builder. A rule
refuses where the facts are firm, and warns where they are not.
"""
