"""Gymnasium environments: one id per named task, and `mygym/Gym-v0` for any composition of stages.

`ids` knows their names without a simulator; `robot_env` is the environment.
"""
