"""Execution of one training run: directory, environments, callbacks, checkpoints, evaluation, videos, result."""
