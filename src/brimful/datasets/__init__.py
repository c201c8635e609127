"""`brimful data`: datasets in PostgreSQL, from the command line and other faces; the work is done in `brimful.data`."""
