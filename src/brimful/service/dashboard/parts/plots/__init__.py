"""Plots of what jobs report, and of devices."""
