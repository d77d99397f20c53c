"""The built-in named tasks. Any valid string of letters or list of stages is a task as well."""

from mygym.tasks.stage import SubTask
from mygym.tasks.task import register_task

# In PyBullet, env steps are the cost of a run, and xqc needs the fewest. MuJoCo steps many worlds at once: there ppo is
# quicker (benchmarks/tables/learning). In the other tasks of xqc, ppo has less success or was not measured in MuJoCo.
XQC_OR_PPO = {"algo": {"pybullet": "xqc", "mujoco": "ppo", "mujoco_10ms": "ppo"}}

register_task(
    "reach",
    "A",
    help="bring the end effector to a point in space",
    horizon=25,
    also=("baskets", "collabtable", "darts", "drawer", "football", "fridge", "maze", "panel", "stairs", "verticalmaze"),
)
register_task(
    "stack",
    "AGMDW",
    help="put an object on top of another",
    objects={"base": "cube"},
    onto="base",
    tolerance=0.02,
    horizon=150,
    also=("baskets", "collabtable", "football"),
    run_defaults=XQC_OR_PPO,
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
    run_defaults={"algo": ["xqc", "sac"]},
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
    run_defaults=XQC_OR_PPO,
)
register_task(
    "push",
    ("approach", "push"),
    help="push an object along the table to a point",
    horizon=100,
    also=("baskets", "collabtable", "darts", "football"),
)
register_task(
    "pick_and_place",
    "AGM",
    help="grasp an object and carry it to a point in the air",
    horizon=100,
    run_defaults=XQC_OR_PPO,
    also=("baskets", "collabtable", "darts", "drawer", "football", "fridge", "panel"),
)
register_task(
    "maze",
    ("approach", "guide"),
    help="guide a marble through a maze that lies on the table",
    workspace="maze",
    object="marble",
    path="solution",
    words="through the maze",
    horizon=500,
    run_defaults={"algo": "xqc"},
)
register_task(
    "vertical_maze",
    ("approach", "guide"),
    help="guide a ball down through a maze that stands upright",
    workspace="verticalmaze",
    object="ball",
    path="solution",
    words="through the maze",
    horizon=400,
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
    run_defaults={"algo": "xqc"},
)
register_task(
    "hand_over",
    ("approach", "grasp", "offer", "hand_over", "bring"),
    help="give an object from one hand to the other, which puts it on the other side",
    workspace="collabtable",
    object="baton",
    grip=(-0.08, 0.0, 0.0),
    via="handover",
    area="other_side",
    words="to the other side",
    tolerance=0.03,
    horizon=250,
    run_defaults={"robot": "panda_pair", "algo": "xqc"},
)
register_task(
    "build_tower",
    [SubTask("AGMDW", "middle", onto="base"), SubTask("AGMDW", "top", onto="middle")],
    help="build a tower of three cubes",
    objects={"base": "cube", "middle": "cube", "top": "cube"},
    tolerance=0.02,
    horizon=250,
    run_defaults={"algo": "xqc"},
)
register_task(
    "set_table",
    [SubTask("AGMDW", "cup", onto="saucer"), SubTask("AGMDW", "candle", words="to its place")],
    help="put a cup onto its saucer and a candle to its place",
    tolerance=0.03,
    horizon=250,
    run_defaults={"algo": "xqc"},
)
register_task(
    "poke",
    ("approach", "poke", "withdraw"),
    help="touch an object and withdraw from it",
    horizon=50,
    also=("baskets", "collabtable", "drawer", "football", "panel"),
)
register_task(
    "press",
    ("approach", "press"),
    help="press a button",
    workspace="panel",
    part="panel.button",
    to=(0.009, 0.011),
    tolerance=0.003,
    horizon=100,
    run_defaults=XQC_OR_PPO,
)
register_task(
    "switch",
    ("approach", "switch"),
    help="flip a switch",
    workspace="panel",
    part="panel.switch",
    to=(0.3, 0.5),
    tolerance=0.2,
    horizon=100,
)
register_task(
    "turn",
    ("approach", "turn"),
    help="turn a valve by its handle",
    workspace="panel",
    part="panel.valve",
    to=(0.8, 2.0),
    tolerance=0.15,
    horizon=150,
    run_defaults=XQC_OR_PPO,
)
register_task(
    "insert",
    ("approach", "grasp", "insert", "drop", "withdraw"),
    help="insert a peg into a hole",
    workspace="panel",
    object="square_peg",
    grip=(0.0, 0.0, 0.022),
    area="socket",
    words="into the socket",
    tolerance=0.01,
    horizon=200,
    run_defaults={"algo": "xqc"},
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
    run_defaults={"algo": "xqc"},
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
    ("approach", "grasp", "toss", "settle"),
    help="throw a ball into a basket",
    workspace="baskets",
    object="ball",
    area=("left", "right"),
    tolerance=0.15,
    horizon=200,
    words="into the basket",
    run_defaults={"algo": "xqc"},
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
    run_defaults={"algo": ["xqc", "sac"]},
)
