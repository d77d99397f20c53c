"""Sweeps: search for the values of a config whose runs are the best."""
