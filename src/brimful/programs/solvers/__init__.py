"""Solvers for ARC training tasks, written in the ARC vocabulary, grouped by theme."""
