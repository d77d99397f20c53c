"""An error in the user's code ends with a message that names its line, wherever the code is called."""

from __future__ import annotations

import pickle
import sys
from functools import partial
from pathlib import Path

import pytest

from mygym.cli.main import main
from mygym.registry import user_files
from mygym.training.env_processes import picklable_error
from mygym.training.result import Result
from tests.command import SHORT_RUN, Command, Outcome

HEAD = """\
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from stable_baselines3.common.torch_layers import CombinedExtractor
from mygym.registry import *
from mygym.planning.callbacks import register_callback
from mygym.training.runner import Runner
from mygym.strategies.strategy import Strategy, register_strategy
from mygym.tasks.rewards import register_reward
from mygym.tasks.observations import register_observation
"""

FAILING = {
    "train of an algorithm": (
        "@register_algorithm('mine', defaults={'n_steps': 16, 'batch_size': 16})\nclass Mine(PPO):\n"
        "    def train(self):\n        1 / 0\n",
        ["--algo", "mine"],
    ),
    "training of a runner": (
        "@register_algorithm('mine')\nclass Mine(Runner):\n"
        "    def training(self, loop):\n        loop.next_iteration()\n        1 / 0\n",
        ["--algo", "mine"],
    ),
    "forward of a network": (
        "@register_features_extractor('mine')\nclass Mine(CombinedExtractor):\n"
        "    def forward(self, observations):\n        return 1 / 0\n",
        ["--algo", "ppo", "--set", "algo_params.policy_kwargs.features_extractor_class=mine"],
    ),
    "predict of a policy": (
        "class P(MultiInputActorCriticPolicy):\n    def forward(self, *args, **kwargs):\n        1 / 0\n"
        "@register_algorithm('mine', policy=P, defaults={'n_steps': 16, 'batch_size': 16})\n"
        "class Mine(PPO):\n    pass\n",
        ["--algo", "mine"],
    ),
    "reward": (
        "calls = []\n@register_reward('mine')\ndef mine(achieved_goal, desired_goal):\n    calls.append(1)\n"
        "    if len(calls) > 40:\n        1 / 0\n    return -np.ones(achieved_goal.shape[:-1])\n",
        ["--reward", "mine"],
    ),
    "reward in the fused engine": (
        "calls = []\n@register_reward('mine')\ndef mine(achieved_goal, desired_goal):\n    calls.append(1)\n"
        "    if len(calls) > 40:\n        1 / 0\n    return -((achieved_goal - desired_goal) ** 2).sum(-1)\n",
        ["--reward", "mine", "--engine", "fused"],
    ),
    "callback": (
        "@register_callback('mine')\nclass Mine(BaseCallback):\n    def _on_step(self):\n        return 1 / 0\n",
        ["--set", "callbacks=[mine]"],
    ),
    "on_step of a strategy": (
        "@register_strategy('mine')\nclass Mine(Strategy):\n    def on_step(self, *args):\n        1 / 0\n",
        ["--strategy", "mine"],
    ),
    "constructor of an algorithm": (
        "@register_algorithm('mine')\nclass Mine(PPO):\n"
        "    def __init__(self, policy, env, **kwargs):\n        1 / 0\n",
        ["--algo", "mine"],
    ),
    "prepare_model of a strategy": (
        "@register_strategy('mine')\nclass Mine(Strategy):\n    def prepare_model(self):\n        1 / 0\n",
        ["--strategy", "mine"],
    ),
    "import of a file": ("1 / 0\nregister_algorithm('mine')(PPO)\n", ["--algo", "mine"]),
}
BEFORE_THE_RUN = ("constructor of an algorithm", "prepare_model of a strategy", "import of a file")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py")])
    path = tmp_path / "algos" / "user_file.py"
    path.parent.mkdir()
    return path


def line_of(text: str, path: Path) -> str:
    number = next(number for number, line in enumerate(text.splitlines(), 1) if "1 / 0" in line)
    return f"{path}:{number}"


def failing(train: Command, path: Path, text: str, *words: str) -> Outcome:
    path.write_text(text, encoding="utf-8")
    return train("train", *SHORT_RUN, *words, "--set", "tensorboard=false")


@pytest.mark.parametrize("place", FAILING)
def test_the_last_line_names_the_line_and_the_traceback(place: str, file: Path, mygym_command: Command) -> None:
    text, words = FAILING[place]
    outcome = failing(mygym_command, file, HEAD + text, *words)
    last = outcome.err.splitlines()[-1]
    assert outcome.code in (1, 2)
    assert "division by zero" in last
    assert line_of(HEAD + text, file) in last
    assert "Traceback (most recent call last)" not in outcome.err
    if place in BEFORE_THE_RUN:
        assert "--traceback" in last
        return
    run = Path(outcome.out.splitlines()[-1].removeprefix("run: "))
    assert last.endswith(f"; traceback: {run / 'traceback.txt'}")
    assert "1 / 0" in (run / "traceback.txt").read_text()
    result = Result.read(run)
    assert result is not None
    assert result.error is not None
    assert line_of(HEAD + text, file) in result.error


REWARD = "@register_reward('mine')\ndef mine(context):\n    calls.append(1)\n    return "
NOT_FINITE = {
    "reward": (REWARD + "np.full(1, np.nan if len(calls) > 40 else 0.0)\n", ["--reward", "mine"], "a reward is not"),
    "reward of an evaluation": (REWARD + "np.full(1, np.nan)\n", ["--reward", "mine"], "the mean return of an"),
    "observation": (
        "@register_observation('mine', 10.0)\ndef mine(context):\n    calls.append(1)\n"
        "    return np.full((1, 1), np.nan if len(calls) > 40 else 0.0)\n",
        ["--set", "observations=[ee_position, mine]"],
        "gave an observation that is not finite",
    ),
}


@pytest.mark.parametrize("place", NOT_FINITE)
def test_a_number_that_is_not_finite_is_named_by_its_line(place: str, file: Path, mygym_command: Command) -> None:
    text, words, message = NOT_FINITE[place]
    outcome = failing(mygym_command, file, f"{HEAD}calls = []\n{text}", *words)
    assert outcome.code == 1
    assert message in outcome.err.splitlines()[-1]
    assert f"{words[1].split()[-1].rstrip(']')} ({file}:" in outcome.err.splitlines()[-1]
    assert place.split()[0] in outcome.err.splitlines()[-1]


def test_a_reward_of_a_wrong_shape_leaves_no_run(file: Path, mygym_command: Command) -> None:
    outcome = failing(mygym_command, file, f"{HEAD}calls = []\n{REWARD}np.zeros(2)\n", "--reward", "mine")
    assert outcome.code == 2
    assert f"reward mine: result: 'ndarray of shape (2,)' is not allowed ({file}:" in outcome.err
    assert not list(file.parents[1].glob("runs"))


def test_an_error_of_a_process_brings_its_line(file: Path) -> None:
    file.write_text("def reward():\n    return 1 / 0\n", encoding="utf-8")
    user_files.execute("mygym_user.algos.user_file", file)
    try:
        sys.modules["mygym_user.algos.user_file"].reward()
    except ZeroDivisionError as error:
        sent = pickle.loads(pickle.dumps(picklable_error(error, "environment 2 of 4")))
    assert str(sent) == f"environment 2 of 4: ZeroDivisionError: division by zero ({file}:2)"


@pytest.mark.parametrize("place", ["train of an algorithm", "import of a file"])
def test_the_flag_traceback_prints_it(place: str, file: Path, mygym_command: Command) -> None:
    text, words = FAILING[place]
    outcome = failing(mygym_command, file, HEAD + text, *words, "--traceback")
    assert "Traceback (most recent call last)" in outcome.err
    assert "ZeroDivisionError: division by zero" in outcome.err.splitlines()[-1]


def test_an_error_of_the_users_input_names_no_line(file: Path, mygym_command: Command) -> None:
    outcome = mygym_command("train", "--algo", "ppoo", "--set", "steps=10")
    assert outcome.code == 2
    assert "train.py" not in outcome.err
    assert "traceback" not in outcome.err


def test_a_mistake_of_this_program_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mygym.cli.main._print_help", partial(int, "no number"))
    with pytest.raises(ValueError, match="no number"):
        main([])
