"""A graph over the samples of a batch: in which order, and how."""
