"""Gymnasium environments: one id per named task, and `mygym/Gym-v0` for any composition of stages.

`ids` knows their names without a simulator; `robot_env` is the environment, `fitting` refuses what does not go
together, `layout` draws where things are, and `randomizing` what else differs between episodes, by the functions in
`randomizers`.
"""
