"""Execution of a training run: directory, environments, callbacks, checkpoints, evaluation, videos, result."""
