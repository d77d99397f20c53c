"""Custom task: train with `--task nudge`, or make the environment `mygym/Nudge-v0`."""

from mygym.tasks.task import register_task

register_task(
    "nudge",
    stages=["approach", "push", "withdraw"],  # of `mygym list stage`, or letters such as "AGM"
    help="push an object to a point and withdraw from it",  # `mygym list task` prints this line
    tolerance=0.05,  # m: distance to the goal that counts as success
    hold=3,  # steps that success must last
    horizon=120,  # steps of an episode, at most
    workspace="table",
    object="cube",
    run_defaults={"steps": 500_000, "eval": {"every": 10_000}},  # config keys that suit the task
)
