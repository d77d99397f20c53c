"""Gymnasium environments: one id per named task, and `mygym/Gym-v0` for any task."""
