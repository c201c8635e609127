"""Solvers of ARC training tasks, written in the vocabulary of arc-dsl and grouped by theme."""
