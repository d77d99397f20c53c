"""Ranges of the hyperparameters of the libraries' classes and of mygym's, whose signatures have no bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from mygym.registry.signatures import Parameter


@dataclass(frozen=True)
class Range:
    """Interval of numbers, closed unless `open_low`."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False

    def __contains__(self, value: float) -> bool:
        return (value > self.low if self.open_low else value >= self.low) and value <= self.high

    def __str__(self) -> str:
        low = f"above {self.low:g}" if self.open_low else f"at least {self.low:g}"
        return low if self.high == math.inf else f"{low} and at most {self.high:g}"


_POSITIVE = Range(0, open_low=True)
_COUNT = Range(1)
_SHARE = Range(0, 1)

PACKAGES = (
    *("stable_baselines3", "sb3_contrib", "sbx", "torch", "optax"),
    *("mygym.algos", "mygym.runs.runner", "mygym.runs.jax_runner"),
)
"""Packages of the classes for which `RANGES` and `TEXTS` hold. Other classes have only the bounds of their type hints,
e.g. `Annotated[float, Gt(0)]`: an equal name may mean something else."""

RANGES: Mapping[str, Range] = {
    "learning_rate": _POSITIVE,
    "gamma": _SHARE,
    "gae_lambda": _SHARE,
    "tau": _SHARE,
    "batch_size": Range(1, 10_000_000),  # far more than fits into memory
    "buffer_size": _COUNT,
    "n_steps": _COUNT,
    "n_epochs": _COUNT,
    "learning_starts": Range(0),
    "gradient_steps": Range(-1),
    "target_update_interval": _COUNT,
    "policy_delay": _COUNT,
    "clip_range": _POSITIVE,
    "clip_range_vf": _POSITIVE,
    "ent_coef": Range(0),
    "vf_coef": Range(0),
    "max_grad_norm": _POSITIVE,
    "n_delta": _COUNT,
    "n_top": _COUNT,
    "delta_std": _POSITIVE,
    "target_kl": _POSITIVE,
    "target_policy_noise": Range(0),
    "target_noise_clip": Range(0),
    "top_quantiles_to_drop_per_net": Range(0),
    "cg_max_steps": _COUNT,
    "cg_damping": Range(0),
    "line_search_shrinking_factor": Range(0, 1, open_low=True),
    "n_critic_updates": _COUNT,
    "sde_sample_freq": Range(-1),
    "random_shift": Range(0, 1024),
    "action_noise": Range(0),
    "train_freq": _COUNT,
    "stats_window_size": _COUNT,
    "n_eval_episodes": _COUNT,
    "n_sampled_goal": Range(0),
    "net_arch": _COUNT,
    "n_critics": _COUNT,
    "n_quantiles": _COUNT,
    "lstm_hidden_size": _COUNT,
    "n_lstm_layers": _COUNT,
    "features_dim": _COUNT,
    "channels": _COUNT,
    "keypoints": _COUNT,
    "color_jitter": Range(0, 1),
    "clip_mean": Range(0),
    "eps": Range(0),
    "weight_decay": Range(0),
    "betas": _SHARE,
    "epsilon": _SHARE,
    "exploration_fraction": Range(0, 1, open_low=True),
    "exploration_initial_eps": _SHARE,
    "exploration_final_eps": _SHARE,
    "population": Range(2),
    "beta": _SHARE,
    "rollout_steps": _COUNT,
    "elites": _COUNT,
    "initial_std": _POSITIVE,
    "extra_std": Range(0),
    "extra_generations": _COUNT,
    "smoothing": Range(0, 1, open_low=True),
    "episodes": _COUNT,
    "sub_sampling_factor": Range(1, 1),  # sb3-contrib cannot sub-sample dictionaries
}
"""Name of a hyperparameter → its range."""

TEXTS: Mapping[str, tuple[str, str]] = {
    "ent_coef": (r"auto(_[0-9.]+(e-?[0-9]+)?)?", "a number, auto, or auto_0.1 for another first value"),
    "target_entropy": ("auto", "a number or auto"),
}
"""Name of a hyperparameter that is a number or text → pattern of the text, and the allowed values in words."""


def is_known(parameter: Parameter) -> bool:
    """Return whether a class or function of `PACKAGES` declares a parameter."""
    module: str = getattr(parameter.declared_by, "__module__", "")
    return any(module == package or module.startswith(f"{package}.") for package in PACKAGES)


def range_of(parameter: Parameter) -> Range | None:
    """Return the range of a hyperparameter; None if the class that declares it is none of `PACKAGES`."""
    return RANGES.get(parameter.name) if is_known(parameter) else None


MAX_FLOAT32 = 3.4e38
"""Largest finite float32, the type in which torch computes."""
