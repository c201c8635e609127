"""`python -m brimful`."""

from .cli.app import run

run()
