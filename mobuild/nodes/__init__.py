"""Kinds of nodes, one file or folder each; a recipe reaches them by `_target_` alone."""
