"""Loops compiled for the CPU, beside plain twins in torch that run on a GPU."""
