"""Checkpoints on disk: the serialized state of a run."""
