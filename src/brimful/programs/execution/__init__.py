"""Running a graph: sample by sample, the meaning of every program."""
