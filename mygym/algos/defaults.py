"""Tables of the built-in algorithms and of the parts of networks; an algorithm has the values of `recipes/NAME.yaml`.

A class is imported, and a recipe read, at its first use. With its recipe each algorithm solves `reach`
(`benchmarks/tables/algorithms/table.md`). `mygym describe algo NAME --yaml` prints the complete config of an algorithm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mygym.config.loading import load_file
from mygym.registry import Algorithm, add_algorithm, registry

RECIPES = Path(__file__).with_name("recipes")

SECTIONS = (
    *("defaults", "run_defaults", "stage_defaults", "task_defaults", "engine_defaults", "engine_stage_defaults"),
    *("engine_task_defaults", "search_space"),
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
    """A section (see `SECTIONS`) of a recipe, read at its first use: `mygym list` needs none of the files."""

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
    """Add an algorithm; `target` is a class in `stable_baselines`, or `module:class`."""
    target = target if ":" in target else f"stable_baselines:{target}"
    sections: dict[str, Any] = {section: Section(name, framework, section) for section in SECTIONS}
    entry = Algorithm(name, framework, f"mygym.algos.{target}", help=help, **capabilities, **sections)
    add_algorithm(entry, origin="mygym.algos")


_CONTINUOUS: Mapping[str, Any] = {"requires": ("continuous_actions",)}
_COMBINED: Mapping[str, Any] = {"requires": ("continuous_or_combined_actions",)}
_OFF_POLICY: Mapping[str, Any] = {**_CONTINUOUS, "goal_relabelling": True}
_Q_LEARNING: Mapping[str, Any] = {"requires": ("discrete_actions",), "goal_relabelling": True}
_IMITATES: Mapping[str, Any] = {**_CONTINUOUS, "replaces_task_budget": True}
_FLAT: Mapping[str, Any] = {"policy": "MlpPolicy", "dict_observations": False}
_LINEAR: Mapping[str, Any] = {"policy": "LinearPolicy", "dict_observations": False}

_add("ppo", "PPO", "proximal policy optimisation: on-policy, robust, for many environments")
_add("multippo", "PPO", "proximal policy optimisation with separate networks for each stage of the task")
_add("a2c", "A2C", "advantage actor-critic: on-policy, simple")
_add("sac", "SAC", "soft actor-critic: off-policy, maximum entropy; the default", **_OFF_POLICY)
_add("td3", "TD3", "twin delayed deep deterministic policy gradient: off-policy, deterministic", **_OFF_POLICY)
_add("ddpg", "DDPG", "deep deterministic policy gradient: off-policy, the classic choice with hindsight", **_OFF_POLICY)
_add("tqc", "TQC", "truncated quantile critics: off-policy, soft actor-critic with distributions", **_OFF_POLICY)
_add("dqn", "DQN", "deep Q-learning: off-policy, values of discrete actions", **_Q_LEARNING)
_add(
    "qrdqn",
    "QRDQN",
    "quantile regression deep Q-learning: off-policy, distributions of the values of discrete actions",
    **_Q_LEARNING,
)
_add(
    "ddqn",
    "ddqn:DDQN",
    "double deep Q-learning: off-policy, values of discrete actions that are not overestimated",
    **_Q_LEARNING,
)
_add("trpo", "TRPO", "trust region policy optimisation: on-policy, careful steps")
_add(
    "crossq",
    "CrossQ",
    "batch-normalised soft actor-critic without target networks: off-policy, sample-efficient",
    **_CONTINUOUS,
    **_FLAT,
)
_add("ars", "ARS", "augmented random search: no gradients, linear policy", **_COMBINED, **_LINEAR)
_add(
    "recurrent_ppo",
    "RecurrentPPO",
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
_add("sac", "sbx:SAC", framework="jax", **_OFF_POLICY)
_add("tqc", "sbx:TQC", framework="jax", **_OFF_POLICY)
_add("td3", "sbx:TD3", framework="jax", **_OFF_POLICY)
_add("ddpg", "sbx:DDPG", framework="jax", **_CONTINUOUS, **_FLAT)
_add("crossq", "sbx:CrossQ", framework="jax", **_OFF_POLICY)
_add(
    "xqc",
    "xqc:XQC",
    "CrossQ with distributions of returns and normalised weights: off-policy, few environment steps; in JAX",
    framework="jax",
    **_OFF_POLICY,
)


ACTIVATIONS = {
    "relu": ("ReLU", "relu", "max(0, x)"),
    "leaky_relu": ("LeakyReLU", "leaky_relu", "x, or 0.01 x below zero"),
    "elu": ("ELU", "elu", "x, or exp(x) − 1 below zero"),
    "gelu": ("GELU", "gelu", "x times the cumulative normal distribution of x"),
    "silu": ("SiLU", "silu", "x times the sigmoid of x, also called swish"),
    "tanh": ("Tanh", "tanh", "hyperbolic tangent"),
    "sigmoid": ("Sigmoid", "sigmoid", "1 / (1 + exp(−x))"),
    "softplus": ("Softplus", "softplus", "log(1 + exp(x))"),
}
"""Name → class in `torch.nn`, function in `flax.linen`, help."""

OPTIMIZERS = {
    "adam": ("torch.optim:Adam", "optax:adam", "adaptive moments (Kingma & Ba, 2015)"),
    "adamw": ("torch.optim:AdamW", "optax:adamw", "Adam with decoupled weight decay (Loshchilov & Hutter, 2019)"),
    "nadam": ("torch.optim:NAdam", "optax:nadam", "Adam with Nesterov momentum (Dozat, 2016)"),
    "radam": ("torch.optim:RAdam", "optax:radam", "rectified Adam (Liu et al., 2020)"),
    "rmsprop": ("torch.optim:RMSprop", "optax:rmsprop", "running mean of squared gradients (Hinton, 2012)"),
    "sgd": ("torch.optim:SGD", "optax:sgd", "stochastic gradient descent, optionally with momentum"),
}
"""Name → class in PyTorch, function in JAX, help."""

RMSPROP_TF = "stable_baselines3.common.sb2_compat.rmsprop_tf_like:RMSpropTFLike"

FEATURES_EXTRACTORS = {
    "flatten": ("FlattenExtractor", "one vector of all numbers"),
    "combined": ("CombinedExtractor", "concatenates the arrays of a dictionary; a small CNN for images"),
    "nature_cnn": ("NatureCNN", "three convolutions for images (Mnih et al., 2015)"),
}
"""Name → class in `stable_baselines3.common.torch_layers`, help."""

IMAGE_EXTRACTORS = {
    "frozen": ("FrozenExtractor", "latents of images by a trained encoder that stays as it is, and all numbers"),
    "drq": (
        "DrQExtractor",
        "four convolutions and a small vector for each image (Yarats et al., 2021), and all numbers",
    ),
    "keypoints": (
        "KeypointExtractor",
        "positions of learned keypoints in images (Levine et al., 2016), and the numbers of a dictionary",
    ),
    "resnet": ("ResNetExtractor", "a small residual network for each image (Espeholt et al., 2018), and all numbers"),
}
"""Name → class in `mygym.algos.images`, help."""

for _name, (_torch, _flax, _help) in ACTIVATIONS.items():
    _targets = {"pytorch": f"torch.nn:{_torch}", "jax": f"flax.linen:{_flax}"}
    registry("activation").register(_name, _targets, _help, __name__)
for _name, (_torch, _optax, _help) in OPTIMIZERS.items():
    registry("optimizer").register(_name, {"pytorch": _torch, "jax": _optax}, _help, __name__)
registry("optimizer").register("rmsprop_tf", {"pytorch": RMSPROP_TF}, "RMSProp as in TensorFlow", __name__)
for _name, (_class, _help) in FEATURES_EXTRACTORS.items():
    _target = {"pytorch": f"stable_baselines3.common.torch_layers:{_class}"}
    registry("features_extractor").register(_name, _target, _help, __name__)
for _name, (_class, _help) in IMAGE_EXTRACTORS.items():
    _target = {"pytorch": f"mygym.algos.images:{_class}"}
    registry("features_extractor").register(_name, _target, _help, __name__)
