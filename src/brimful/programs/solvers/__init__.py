"""Solvers of ARC training tasks, written in the vocabulary of arc-dsl."""
