"""The tasks that have names. Any grammatical string of letters, or list of stages, is a task as well."""

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
    "slide",
    ("approach", "slide", "settle"),
    help="push a curling stone so that it glides to a point out of reach",
    object="curling_stone",
    area=("far_left", "far_right"),
    deceleration=1.96,  # g times the friction of stone on the table, 0.2
    tolerance=0.06,
    horizon=200,
)
register_task(
    "score_goal",
    ("approach", "slide", "settle"),
    help="push a ball into the football goal, out of reach",
    workspace="football",
    object="ball",
    area="goal",
    deceleration=0.105,  # of the ball as it rolls on the pitch, measured
    tolerance=0.09,
    horizon=250,
    words="into the goal",
)
register_task(
    "throw",
    ("approach", "grasp", "throw", "settle"),
    help="throw a ball into a basket",
    workspace="baskets",
    object="ball",
    area=("left", "right"),
    tolerance=0.15,
    horizon=200,
    words="into the basket",
)
register_task(
    "hit_board",
    ("approach", "grasp", "throw", "strike"),
    help="throw a ball at a point of the dart board",
    workspace="darts",
    object="ball",
    area="board",
    tolerance=0.08,
    horizon=150,
    words="at the board",
)
