"""Jobs that survive: every workload behind a REST API, on PostgreSQL. `brimful serve` starts it."""
