"""Pages of the dashboard, each for a browser."""
