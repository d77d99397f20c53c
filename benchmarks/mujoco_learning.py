"""Learning in MuJoCo from reward alone, judged in PyBullet: whole commands, from launch to the saved model.

    python benchmarks/mujoco_learning.py --seeds 3 > benchmarks/results/mujoco_learning.md

Each task is named alone: algorithm, reward and starts are its defaults; tasks of `xqc` are in the results of
`benchmarks/learning.py`. The columns are those of `benchmarks/strategies.py`; success is judged in PyBullet, and that
of as many fresh episodes in MuJoCo stands beside it. The last group is trained in other engines, and judged in MuJoCo
as it is. Finished runs are stored in a JSON file and not repeated; `--fresh` repeats them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import strategies  # type: ignore[import-not-found]  # beside this program

GROUPS = {
    "touching": ("Touched and pushed", ("reach", "push", "poke", "score_goal")),
    "parts": ("Articulated parts", ("press", "switch", "turn", "open_door", "open_drawer")),
    "carrying": ("Carried and thrown", ("pick_and_place", "stack", "place_on_step", "hit_board")),
}

QUESTIONS: Mapping[str, tuple[str, Sequence[str]]] = {
    **{
        key: (question, [f"--engine mujoco --task {task}" for task in tasks])
        for key, (question, tasks) in GROUPS.items()
    },
    "elsewhere": (
        "Learned in other engines",
        [
            *(f"--engine fused --task {task}" for task in ("reach", "push", "pick_and_place")),
            "--algo dagger --task stack",
        ],
    ),
}
"""Group of tasks → question, and the commands that answer it, without `python train.py`."""

if __name__ == "__main__":
    strategies.main("mujoco_learning", "Learning in MuJoCo", QUESTIONS, __doc__ or "", verdict=True)
