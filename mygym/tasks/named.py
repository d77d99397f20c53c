"""The tasks that have names. Any grammatical string of letters, or list of stages, is a task as well."""

from mygym.tasks.task import register_task

register_task(
    "reach",
    "A",
    help="bring the end effector to a point in space",
    horizon=25,
)
register_task(
    "push",
    ("approach", "push"),
    help="push an object along the table to a point",
    horizon=100,
    run_defaults={"steps": 500_000, "eval": {"every": 10_000}},
)
register_task(
    "pick_and_place",
    "AGM",
    help="grasp an object and carry it to a point in the air",
    horizon=100,
    run_defaults={"steps": 1_000_000, "eval": {"every": 20_000}},
)
