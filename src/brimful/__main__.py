"""`python -m brimful`."""

from .cli.app import main

main()
