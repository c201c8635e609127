"""The batched executor: every operation once, over all samples, as columns of values."""
