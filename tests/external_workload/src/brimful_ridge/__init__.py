"""Many small ridge regressions, each with a penalty of its own."""
