"""MuJoCo: all tasks, and many worlds of a model in one process."""
