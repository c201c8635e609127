"""Who may call the service, and what it takes from them. Nothing here knows of jobs, the database or FastAPI."""
