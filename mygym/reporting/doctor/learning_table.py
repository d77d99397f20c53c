"""Env steps in which tasks were learned, as measured; `tests/reporting` compares them with `benchmarks`."""

from __future__ import annotations

from collections.abc import Mapping

LEARNED: Mapping[str, Mapping[str, int]] = {
    "reach": {
        "a2c": 30_080,
        "ars": 1_503_648,
        "bc": 10_000,
        "cem": 230_264,
        "crossq": 3_500,
        "dagger": 10_000,
        "ddpg": 3_500,
        "ddqn": 4_500,
        "dqn": 5_000,
        "multippo": 20_480,
        "ppo": 20_480,
        "ppo_runner": 20_480,
        "qrdqn": 4_500,
        "recurrent_ppo": 30_720,
        "sac": 3_000,
        "td3": 4_000,
        "tqc": 3_500,
        "trpo": 20_480,
    },
    "push": {"dagger": 5_200, "ppo": 251_904},
    "pick_and_place": {"dagger": 5_200, "ppo": 226_304},
    "poke": {"dagger": 5_200, "ppo": 40_960, "sac": 20_000},
    "press": {"dagger": 5_200, "ppo": 120_832, "sac": 20_000},
    "switch": {"dagger": 5_200, "ppo": 40_960, "sac": 20_000},
    "turn": {"dagger": 5_200, "ppo": 161_792, "sac": 40_000},
    "open_door": {"dagger": 7_600, "ppo": 161_792, "sac": 30_000},
    "open_drawer": {"dagger": 5_200, "ppo": 100_352, "sac": 20_000},
    "score_goal": {"dagger": 5_200, "ppo": 176_128, "sac": 130_000},
    "vertical_maze": {"dagger": 5_200, "ppo": 425_984},
    "place_on_step": {"dagger": 5_200, "ppo": 601_088, "sac": 400_000},
    "insert": {"dagger": 12_600, "ppo": 850_944, "sac": 300_000},
    "hit_board": {"dagger": 5_200, "ppo": 751_616, "sac": 480_000},
    "throw": {"dagger": 7_600, "ppo": 1_326_080},
    "stack": {"dagger": 5_200, "ppo": 751_616},
    "slide": {"dagger": 5_200},
    "maze": {"dagger": 10_000},
    "build_tower": {"dagger": 32_600},
    "set_table": {"dagger": 70_000},
    "hand_over": {"dagger": 20_200},
}
"""Task → algorithm → env steps until 90 % success (`reach`: until the run ended), the median over the seeds
that reached it.

From `benchmarks/results/algorithms.json` (`reach`, with the defaults) and `learning.json` beside it (all else).
"""

IMITATION = ("bc", "dagger")
"""Algorithms that imitate the expert; they do not learn from reward."""

SEVERAL_STAGES = min(
    steps for task, row in LEARNED.items() if task != "reach" for algo, steps in row.items() if algo not in IMITATION
)
"""Fewest env steps in which a task of several stages was learned from reward."""


def steps_to_learn(task: str, algo: str, several_stages: bool) -> tuple[int, str] | None:
    """Return the measured env steps for a task, and where they come from in words; None if nothing is comparable."""
    row = LEARNED.get(task, {})
    if algo in row:
        return row[algo], f"{task} was learned by {algo}"
    if algo in IMITATION:
        return None
    if rewarded := row.keys() - IMITATION:
        fastest = min(rewarded, key=lambda name: (row[name], name))
        return row[fastest], f"{task} was learned by {fastest}"
    if several_stages:
        return SEVERAL_STAGES, "the quickest task of several stages was learned"
    return None
