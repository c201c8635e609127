"""Recordings that many tests look at, made once."""

import functools

from brimful.locate import Recordings, generate


@functools.cache
def recordings() -> Recordings:
    return generate(6_000)
