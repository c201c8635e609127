"""How a location or a cell is packed into one key: its bits, and what coordinates and colors are biased by."""

BITS = 20
BIAS = 1 << BITS - 1
COLOR_BIAS = 1 << 22
FIELD = (1 << BITS) - 1
COORDINATE_LIMIT = (1 << 17) - 1
"""Coordinates and colors from this on are left to the sequential executor."""
NAN_COLOR = COORDINATE_LIMIT
"""The color, of cells of grids and as the third number of triples, that stands for NaN."""
NAN = (1 << 62) - 1
"""The whole number that stands for NaN."""
