"""Random grids and patches."""

from hypothesis import strategies as st


@st.composite
def grids(draw, largest: int = 6, colors: int = 3):
    """Rectangular grids of few colors."""
    height, width = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    row = st.lists(st.integers(0, colors), min_size=width, max_size=width).map(tuple)
    return tuple(draw(st.lists(row, min_size=height, max_size=height)))


GRIDS = grids()
LOCATIONS = st.tuples(st.integers(-3, 8), st.integers(-3, 8))
INDICES = st.frozensets(LOCATIONS, min_size=1, max_size=10)
OBJECTS = st.frozensets(st.tuples(st.integers(0, 9), LOCATIONS), min_size=1, max_size=10)
PATCHES = st.one_of(INDICES, OBJECTS)
