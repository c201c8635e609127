"""How a location or a cell is packed into one key: its bits, and what coordinates and colors are biased by."""

BITS = 20
BIAS = 1 << BITS - 1
COLOR_BIAS = 1 << 22
FIELD = (1 << BITS) - 1
COORDINATE_LIMIT = 1 << 17
"""Coordinates and colors beyond this are left to the sequential executor."""
