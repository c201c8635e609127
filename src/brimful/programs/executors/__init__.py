"""Running programs on batches of samples: by which executor, and what it took."""
