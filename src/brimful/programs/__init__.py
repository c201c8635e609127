"""Straight-line programs over thousands of grids: every operation may fail, and fails for its sample alone."""
