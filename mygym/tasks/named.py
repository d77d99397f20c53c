"""The tasks that have names. Any grammatical string of letters, or list of stages, is a task as well."""

from mygym.tasks.subtask import SubTask
from mygym.tasks.task import register_task

register_task(
    "reach",
    "A",
    help="bring the end effector to a point in space",
    horizon=25,
)
register_task(
    "stack",
    "AGMDW",
    help="put an object on top of another",
    objects={"base": "cube"},
    onto="base",
    tolerance=0.02,
    horizon=150,
    run_defaults={"steps": 2_000_000, "eval": {"every": 50_000}},
)
register_task(
    "open_drawer",
    ("approach", "open"),
    help="open a drawer by its handle",
    workspace="drawer",
    part="cabinet.drawer",
    to=(0.12, 0.20),
    tolerance=0.02,
    horizon=150,
)
register_task(
    "open_door",
    ("approach", "open"),
    help="open the door of a refrigerator by its handle",
    workspace="fridge",
    part="fridge.door",
    to=(0.6, 1.2),
    tolerance=0.1,
    horizon=200,
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

register_task(
    "place_on_step",
    "AGMDW",
    help="put an object on one of three steps",
    workspace="stairs",
    area=("step_1", "step_2", "step_3"),
    words="onto a step",
    tolerance=0.03,
    horizon=150,
)
register_task(
    "build_tower",
    [SubTask("AGMDW", "middle", onto="base"), SubTask("AGMDW", "top", onto="middle")],
    help="build a tower of three cubes",
    objects={"base": "cube", "middle": "cube", "top": "cube"},
    tolerance=0.02,
    horizon=250,
)
register_task(
    "set_table",
    [SubTask("AGMDW", "cup", onto="saucer"), SubTask("AGMDW", "candle", words="to its place")],
    help="put a cup onto its saucer and a candle to its place",
    tolerance=0.03,
    horizon=250,
)
register_task(
    "poke",
    ("approach", "poke", "withdraw"),
    help="touch an object and withdraw from it",
    horizon=50,
)
