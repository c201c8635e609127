"""The process that runs one job: `python -m brimful.service.child JOBDIR`. It needs the core dependencies alone."""
