"""Checkpoints on disk: the state of everything in a run, serialized."""
