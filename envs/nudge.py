"""A custom task: copy this file, change the names in it, train with `--task nudge`."""

from mygym.tasks.task import register_task

register_task(
    "nudge",
    stages=["approach", "push", "withdraw"],
    help="push an object to a point and withdraw from it",
    horizon=120,
    run_defaults={"steps": 500_000, "eval": {"every": 10_000}},
)
