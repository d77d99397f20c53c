"""SBX's algorithms: those of Stable-Baselines3 in JAX, with `state_dict` and schedules that are followed."""

from __future__ import annotations

import warnings

from mygym.algos.stable_baselines import GaussianExploration
from mygym.runs.state import Stateful

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # tensorflow-probability uses what JAX will drop
    import sbx


class PPO(Stateful, sbx.PPO):
    """Proximal policy optimisation (Schulman et al., 2017)."""


class SAC(Stateful, sbx.SAC):
    """Soft actor-critic (Haarnoja et al., 2018)."""


class TQC(Stateful, sbx.TQC):
    """Truncated quantile critics (Kuznetsov et al., 2020)."""


class TD3(GaussianExploration, Stateful, sbx.TD3):
    """Twin delayed deep deterministic policy gradient (Fujimoto et al., 2018)."""


class DDPG(GaussianExploration, Stateful, sbx.DDPG):
    """Deep deterministic policy gradient (Lillicrap et al., 2015)."""


class CrossQ(Stateful, sbx.CrossQ):
    """CrossQ: batch normalisation in place of target networks (Bhatt et al., 2024)."""
