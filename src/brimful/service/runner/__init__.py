"""What makes jobs go: the scheduler, the processes of jobs and their supervision, durable by DBOS."""
