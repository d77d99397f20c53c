"""Table of the built-in algorithms: class, capabilities and help. Their values are those of `recipes/NAME.yaml`.

A class is imported, and a recipe read, at its first use. With its recipe each algorithm solves `reach`
(`benchmarks/results/algorithms.md`). `mygym describe algo NAME --yaml` prints the complete config of an algorithm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mygym.config.loading import load_file
from mygym.registry import Algorithm, add_algorithm

RECIPES = Path(__file__).with_name("recipes")

SECTIONS = (
    *("defaults", "run_defaults", "stage_defaults", "task_defaults", "engine_defaults", "engine_stage_defaults"),
    "search_space",
)
"""Fields of an `Algorithm` that its recipe has."""


@cache
def recipe(name: str, framework: str) -> dict[str, Any]:
    """Return section → values of a built-in algorithm in a framework.

    Sections that `recipes/NAME.yaml` does not have are those of the recipe that it names as its `base`. The section
    `jax` has the sections that differ in JAX.
    """
    sections = load_file(RECIPES / f"{name}.yaml")
    base, in_jax = sections.pop("base", None), sections.pop("jax", {})
    return {**(recipe(base, framework) if base else {}), **sections, **(in_jax if framework == "jax" else {})}


class Section(Mapping[str, Any]):
    """A section of a recipe, read at its first use: `mygym list` needs none of the files.

    Args:
        name: Name of the algorithm.
        framework: `pytorch` or `jax`.
        section: One of `SECTIONS`; a recipe may lack it.
    """

    def __init__(self, name: str, framework: str, section: str) -> None:
        self.name, self.framework, self.section = name, framework, section

    def _values(self) -> Mapping[str, Any]:
        values: Mapping[str, Any] = recipe(self.name, self.framework).get(self.section, {})
        return values

    def __getitem__(self, key: str) -> Any:
        return self._values()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())


def _add(name: str, target: str, help: str = "", framework: str = "pytorch", **capabilities: Any) -> None:
    sections: dict[str, Any] = {section: Section(name, framework, section) for section in SECTIONS}
    entry = Algorithm(name, framework, f"mygym.algos.{target}", help=help, **capabilities, **sections)
    add_algorithm(entry, origin="mygym.algos")


_CONTINUOUS: Mapping[str, Any] = {"requires": ("continuous_actions",)}
_DISCRETE: Mapping[str, Any] = {"requires": ("discrete_actions",)}
_COMBINED: Mapping[str, Any] = {"requires": ("continuous_or_combined_actions",)}
_RELABELS: Mapping[str, Any] = {"goal_relabelling": True}
_IMITATES: Mapping[str, Any] = {**_CONTINUOUS, "replaces_task_budget": True}
_FLAT: Mapping[str, Any] = {"policy": "MlpPolicy", "dict_observations": False}
_LINEAR: Mapping[str, Any] = {"policy": "LinearPolicy", "dict_observations": False}

_add("ppo", "stable_baselines:PPO", "proximal policy optimisation: on-policy, robust, for many environments")
_add(
    "multippo",
    "stable_baselines:PPO",
    "proximal policy optimisation with separate networks for each stage of the task",
)
_add("a2c", "stable_baselines:A2C", "advantage actor-critic: on-policy, simple")
_add(
    "sac",
    "stable_baselines:SAC",
    "soft actor-critic: off-policy, maximum entropy; the default",
    **_CONTINUOUS,
    **_RELABELS,
)
_add(
    "td3",
    "stable_baselines:TD3",
    "twin delayed deep deterministic policy gradient: off-policy, deterministic",
    **_CONTINUOUS,
    **_RELABELS,
)
_add(
    "ddpg",
    "stable_baselines:DDPG",
    "deep deterministic policy gradient: off-policy, the classic choice with hindsight",
    **_CONTINUOUS,
    **_RELABELS,
)
_add(
    "tqc",
    "contrib:TQC",
    "truncated quantile critics: off-policy, soft actor-critic with distributions",
    **_CONTINUOUS,
    **_RELABELS,
)
_add("dqn", "stable_baselines:DQN", "deep Q-learning: off-policy, values of discrete actions", **_DISCRETE, **_RELABELS)
_add(
    "qrdqn",
    "contrib:QRDQN",
    "quantile regression deep Q-learning: off-policy, distributions of the values of discrete actions",
    **_DISCRETE,
    **_RELABELS,
)
_add(
    "ddqn",
    "ddqn:DDQN",
    "double deep Q-learning: off-policy, values of discrete actions that are not overestimated",
    **_DISCRETE,
    **_RELABELS,
)
_add("trpo", "contrib:TRPO", "trust region policy optimisation: on-policy, careful steps")
_add(
    "crossq",
    "contrib:CrossQ",
    "batch-normalised soft actor-critic without target networks: off-policy, sample-efficient",
    **_CONTINUOUS,
    **_FLAT,
)
_add("ars", "contrib:ARS", "augmented random search: no gradients, linear policy", **_COMBINED, **_LINEAR)
_add(
    "recurrent_ppo",
    "contrib:RecurrentPPO",
    "proximal policy optimisation with an LSTM: on-policy, with memory",
    policy="MultiInputLstmPolicy",
)
_add("ppo_runner", "ppo_runner:PPORunner", "proximal policy optimisation as one readable loop: a runner to start from")
_add("cem", "cem:CEM", "cross-entropy method: no gradients, linear policy; a runner", **_COMBINED, **_LINEAR)
_add("bc", "imitation:BC", "behaviour cloning: imitates the scripted expert; a runner", **_IMITATES)
_add(
    "dagger",
    "imitation:DAgger",
    "dataset aggregation: the policy acts, the scripted expert labels its states; a runner",
    **_IMITATES,
)

_add("ppo", "sbx:PPO", framework="jax", **_FLAT)
_add("sac", "sbx:SAC", framework="jax", **_CONTINUOUS, **_RELABELS)
_add("tqc", "sbx:TQC", framework="jax", **_CONTINUOUS, **_RELABELS)
_add("td3", "sbx:TD3", framework="jax", **_CONTINUOUS, **_RELABELS)
_add("ddpg", "sbx:DDPG", framework="jax", **_CONTINUOUS, **_FLAT)
_add("crossq", "sbx:CrossQ", framework="jax", **_CONTINUOUS, **_RELABELS)
