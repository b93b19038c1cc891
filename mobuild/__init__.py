"""mobuild: make for models."""
