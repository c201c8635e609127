"""The form of a new job."""
