"""`brimful serve`: the database, the service and its REST API in one process."""

from .options import ServeOptions


def serve(options: ServeOptions) -> None:
    """Runs until it is interrupted or terminated; running jobs checkpoint, and go on after the next start."""
    raise NotImplementedError
