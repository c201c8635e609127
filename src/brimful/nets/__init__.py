"""Tiny networks by the thousand: each with learning rates of its own, trained side by side."""
