"""What the page of a job consists of."""
