"""RICO: documents weighed by the gradient of a language model's own loss (Becker et al., 2025)."""
