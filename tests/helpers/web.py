"""A client of an application in the same process."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another version of httpx
    from starlette.testclient import TestClient

__all__ = ["TestClient"]
