"""The command line: a face over the core and the registered workloads."""
