"""Server of the dashboard: API and pages in one process, and the jobs that it starts."""
