"""Learning from reward alone: whole commands, from launch to the saved model, over several seeds.

    python benchmarks/learning.py > benchmarks/results/learning.md
    python benchmarks/learning.py --only parts --seeds 2 > benchmarks/results/learning.md

No demonstrations, except in the last table. In some tasks the expert leads a share of the training episodes to the
start with the object in the hand, or to a random point of its episode (`--explain`). The columns are those of
`benchmarks/strategies.py`. Finished runs are stored in a JSON file and not repeated; `--fresh` repeats them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import strategies  # type: ignore[import-not-found]  # beside this program

from mygym.registry import registry

LONG = (
    "score_goal",
    "maze",
    "vertical_maze",
    "place_on_step",
    "insert",
    "hand_over",
    "throw",
    "build_tower",
    "set_table",
)
"""Tasks for which `sac` has 400,000 steps; for `stack` the task has more, so its command has a flag."""

LONGEST = ("maze", "build_tower", "set_table", "hand_over")
"""Tasks that `ppo` does not learn."""

SOONER = ("insert", "slide", "throw")
"""Tasks that `xqc` learns by default, and `ppo` later or less well."""

FALLING = "algo_params.learning_rate={schedule: linear, from: 1e-3, to: 1e-4}"

QUESTIONS: Mapping[str, tuple[str, Sequence[str]]] = {
    "reach": ("The end effector to a point in space", ["--task reach", "--algo ppo --task reach"]),
    "push": (
        "A cube to a point on the table",
        ["--task push", "--task push --learners 2", "--config configs/push_ppo.yaml"],
    ),
    "pick_and_place": ("A cube to a point in the air", ["--task pick_and_place", "--task pick_and_place --learners 2"]),
    "hindsight": (
        "Sparse reward with hindsight replay",
        [f"--config configs/{task}_hindsight.yaml" for task in ("push", "pick_and_place", "slide")],
    ),
    "grippers": (
        "The same on other grippers",
        [f"--task pick_and_place --robot {robot}" for robot in ("xarm6_gripper", "kuka_gripper")],
    ),
    "parts": (
        "Articulated parts: button, switch, valve, door, drawer",
        [
            *(f"--task {task}" for task in ("press", "switch", "turn", "open_door", "open_drawer")),
            "--task open_drawer --set overlap=true",
            "--algo ppo --task open_drawer",
            *(f"--algo sac --task {task}" for task in ("press", "switch", "turn", "open_door")),
        ],
    ),
    "touching": (
        "Objects that are touched, not held",
        [
            *(f"--task {task}" for task in ("poke", "score_goal", "vertical_maze")),
            "--algo sac --task poke",
        ],
    ),
    "carrying": (
        "Objects that are carried",
        [
            *(f"--task {task}" for task in ("stack", "place_on_step", "hit_board")),
            "--task hit_board --steps 400000",
            "--algo ppo --task hit_board",
            "--task stack --learners 2",
            "--task stack --set control.step=0.02",
            "--task stack --set control.step=0.02 --set task_params.starts.in_hand=0.3",
            "--task stack --steps 1200000 --set control.step=0.02 --set task_params.starts.along_expert=0.3 "
            "--set task_params.starts.in_hand=0.3",
        ],
    ),
    "off_policy": (
        "Soft actor-critic in JAX, the progress of the stages as its reward",
        [
            *(f"--algo sac --framework jax --task {task}" for task in LONG),
            "--algo sac --framework jax --task stack --steps 400000",
        ],
    ),
    "long": (
        "The longest tasks, by XQC and by PPO",
        [f"{words}--task {task}" for words in ("--engine mujoco ", "", "--algo ppo ") for task in LONGEST]
        + [f"--algo xqc --reward shaped --engine mujoco --task {task}" for task in ("build_tower", "set_table")]
        + [f"--task {task} --steps 600000 --set '{FALLING}'" for task in ("build_tower", "set_table")],
    ),
    "sooner": (
        "Further tasks that XQC learns sooner, or better, than PPO",
        [
            f"{words}--task {task}"
            for words in ("--engine mujoco ", "", "--algo ppo ", "--algo ppo --engine mujoco ")
            for task in SOONER
        ],
    ),
    "imitation": (
        "For comparison: imitation of the scripted expert",
        [f"--algo dagger --task {task.name}" for task in registry("task").registered()],
    ),
}
"""Group of tasks → question, and the commands that answer it, without `python train.py`."""

if __name__ == "__main__":
    strategies.main("learning", "Learning from reward", QUESTIONS, __doc__ or "")
