"""Vector environments of runs."""
