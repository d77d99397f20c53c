"""Length of rollouts, and the note on a rollout that is longer than the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mygym
from mygym.runs.planning.plan import plan_from_python
from mygym.runs.planning.rollouts import rollout_steps

SHORT = {
    "n_envs": 2,
    "steps": 1,
    "tensorboard": False,
    "video": {"episodes": 0},
    "eval": {"episodes": 1, "final_episodes": 1},
}


@pytest.mark.parametrize(
    ("algo", "params"),
    [
        ("sac", {"train_freq": 7, "policy_kwargs": {"net_arch": [8]}}),
        ("ppo", {"n_steps": 9, "batch_size": 18, "policy_kwargs": {"net_arch": [8]}}),
        ("ars", {"n_delta": 2, "n_top": 1}),
    ],
)
def test_a_run_ends_after_a_whole_rollout_with_a_note(
    algo: str, params: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"algo": algo, "algo_params": params, "logdir": str(tmp_path), **SHORT}
    steps = rollout_steps(plan_from_python(config))
    trained = mygym.train(config).steps
    assert 1 < trained <= steps
    assert trained == steps or algo == "ars"  # its episodes may end early
    note = f"note: {algo} trains in whole rollouts of up to {steps:,} env steps, more than steps, 1"
    assert note in capsys.readouterr().err.splitlines()
