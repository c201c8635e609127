"""What a batch gives: the bytes of what programs return, and what became of every candidate."""
