"""Length of rollouts, and the note on a rollout that is longer than the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mygym
from mygym.algos.stable_baselines import PPO
from mygym.registry import register_algorithm

SHORT = {
    "n_envs": 2,
    "steps": 1,
    "tensorboard": False,
    "video": {"episodes": 0},
    "eval": {"episodes": 1, "final_episodes": 1},
}


class Fixed(PPO):
    """PPO whose constructor takes no hyperparameter of PPO, so that no config has the length of its rollouts."""

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        seed: int | None = None,
        device: str = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        super().__init__(
            policy, env, n_steps=8, batch_size=16, seed=seed, device=device, _init_setup_model=_init_setup_model
        )


@pytest.mark.parametrize(
    ("algo", "params", "steps"),
    [
        ("sac", {"train_freq": 7, "policy_kwargs": {"net_arch": [8]}}, 14),
        ("ppo", {"n_steps": 9, "batch_size": 18, "policy_kwargs": {"net_arch": [8]}}, 18),
        ("fixed_ppo", {}, 16),
        ("ars", {"n_delta": 2, "n_top": 1}, 200),
    ],
)
def test_a_run_ends_after_a_whole_rollout_with_a_note(
    algo: str, params: dict[str, Any], steps: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register_algorithm("fixed_ppo")(Fixed)
    config = {"algo": algo, "algo_params": params, "logdir": str(tmp_path), **SHORT}
    trained = mygym.train(config).steps
    assert 1 < trained <= steps
    assert trained == steps or algo == "ars"  # its episodes may end early
    note = f"note: {algo} trains in whole rollouts of up to {steps:,} env steps, more than steps, 1"
    assert note in capsys.readouterr().err.splitlines()
