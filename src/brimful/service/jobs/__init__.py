"""What a job is, and which may start: values and pure functions, without a web server, a database or threads."""
