"""The shapes of covariance functions: their names and numbers, which compiled loops take without importing torch."""

SHAPES = ("rbf", "matern12", "matern32", "matern52", "rational_quadratic", "periodic", "linear", "constant")
"""The shapes there are; an index into this tuple is a shape's number in the compiled kernels."""
