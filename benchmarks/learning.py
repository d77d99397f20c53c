"""Learning from reward alone: whole commands, from launch to the saved model, over five seeds.

    python benchmarks/learning.py > benchmarks/results/learning.md

No expert and no demonstrations; in `pick_and_place` the expert places the cube in the hand at the start of three of
ten training episodes. The columns are those of `benchmarks/strategies.py`. Finished runs are stored in a JSON file and
not repeated; `--fresh` repeats them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import strategies  # type: ignore[import-not-found]  # beside this program

QUESTIONS: Mapping[str, tuple[str, Sequence[str]]] = {
    "push": ("A cube to a point on the table", ["--config configs/push_ppo.yaml"]),
    "pick_and_place": ("A cube to a point in the air", ["--config configs/pick_and_place_ppo.yaml"]),
}
"""Task → question, and the commands that answer it, without `python train.py`."""

if __name__ == "__main__":
    strategies.main("learning", "Learning from reward", QUESTIONS, __doc__ or "")
