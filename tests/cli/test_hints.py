"""Hints of messages, followed to the letter: the corrected input is accepted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mygym
from mygym.cli.main import COMMANDS
from tests.cli.conftest import Command, mygym_command  # noqa: F401  a fixture

PACKAGE = Path(mygym.__file__).parent

HINT = re.compile(r"; did you mean '([^']+)'|; use ([\w.]+)|or (\{schedule: [^}]+\})|written as (\{.*\})")
"""Forms of hints in messages: a name or a key, the key that replaces that of another system, the form of a value."""

EXPLAIN = ("train", "--explain")

WRONG = {
    "an algorithm": ("sacc", (*EXPLAIN, "--algo", "sacc")),
    "an algorithm by its class": ("A2CAlgorithm", (*EXPLAIN, "--algo", "A2CAlgorithm")),
    "a task": ("pik_and_place", ("describe", "task", "pik_and_place")),
    "a robot": ("pandaa", (*EXPLAIN, "--robot", "pandaa")),
    "a reward": ("spars", (*EXPLAIN, "--reward", "spars")),
    "a controller": ("joints_griper", (*EXPLAIN, "--control", "joints_griper")),
    "a strategy": ("Curriculum", (*EXPLAIN, "--strategy", "Curriculum")),
    "a sampler by its class": (
        "FairSampler",
        (*EXPLAIN, "--algo", "ppo", "--strategy", "mixture", "--set", "strategy_params.sampler=FairSampler"),
    ),
    "a kind": ("algoritm", ("list", "algoritm")),
    "an option": ("--algoo", (*EXPLAIN, "--algoo", "sac")),
    "a key": ("stesp", (*EXPLAIN, "--set", "stesp=5000")),
    "a key in a section": ("tolerence", (*EXPLAIN, "--set", "task_params.tolerence=0.04")),
    "a key of another section": ("horizon", (*EXPLAIN, "--set", "horizon=30")),
    "a hyperparameter at the top": ("gamma", (*EXPLAIN, "--set", "gamma=0.9")),
    "a hyperparameter": ("gama", (*EXPLAIN, "--set", "algo_params.gama=0.9")),
    "a hyperparameter in the wrong section": (
        "training_params.lr",
        (*EXPLAIN, "--algo", "ppo_runner", "--set", "training_params.lr=1e-3"),
    ),
    "a key of the toolkit": ("eval_freq", (*EXPLAIN, "--set", "eval_freq=500")),
    "a key of a trainer of language models": ("eval_steps", (*EXPLAIN, "--set", "eval_steps=500")),
    "a schedule of RL Zoo": (
        "lin_3e-4",
        (*EXPLAIN, "--algo", "ppo", "--set", "algo_params.learning_rate=lin_3e-4"),
    ),
    "arguments of RL Zoo": (
        "dict(net_arch=[64, 64])",
        (*EXPLAIN, "--set", "algo_params.policy_kwargs=dict(net_arch=[64, 64])"),
    ),
    "a policy for other observations": ("MlpPolicy", (*EXPLAIN, "--set", "algo_params.policy=MlpPolicy")),
}
"""Mistake → the wrong text, and the words of the command."""


@pytest.mark.parametrize("mistake", WRONG)
def test_the_hint_in_a_message_is_accepted(mistake: str, mygym_command: Command) -> None:  # noqa: F811
    wrong, words = WRONG[mistake]
    refused = mygym_command(*words)
    assert refused.code == 2
    (hint,) = HINT.findall(refused.err)
    outcome = mygym_command(*(word.replace(wrong, "".join(hint)) for word in words))
    assert outcome.code == 0, (hint, outcome.err)


def test_the_hint_for_a_command(mygym_command: Command) -> None:  # noqa: F811
    refused = mygym_command("lst", "reward")
    (hint,) = HINT.findall(refused.err)
    assert mygym_command("".join(hint), "reward").code == 0


def test_the_command_for_a_file_of_rl_zoo(mygym_command: Command) -> None:  # noqa: F811
    Path("tqc.yml").write_text("PandaReach-v1:\n  n_timesteps: !!float 2e4\n  policy: 'MultiInputPolicy'\n")
    refused = mygym_command("train", "--config", "tqc.yml")
    (words,) = re.findall(r"allowed: mygym (import \S+ --env) ENV (-o \S+), with ENV (\S+)", refused.err)
    assert mygym_command(*words[0].split(), words[2], *words[1].split()).code == 0
    assert mygym_command(*EXPLAIN, "--config", "new.yaml").code == 0


CLOSED = '''from stable_baselines3 import PPO

from mygym.registry import register_algorithm


@register_algorithm("closed")
class Closed(PPO):
    """PPO without **kwargs."""

    def __init__(self, policy, env, boost=2):
        super().__init__(policy, env)
'''

IN_TURN = '''from mygym.strategies.mixture.samplers import Sampler, register_sampler


@register_sampler("in_turn")
class InTurnSampler(Sampler):
    """Takes the first candidate."""

    protocol = "single"

    def step(self):
        self.set_activate_architecture([0] * self.layers)
'''


def test_the_remedy_for_a_constructor_without_keywords(mygym_command: Command) -> None:  # noqa: F811
    file = Path("algos/closed.py")
    file.parent.mkdir()
    file.write_text(CLOSED)
    refused = mygym_command(*EXPLAIN, "--algo", "closed")
    assert re.search(rf"{file}:\d+", refused.err)
    (call,) = re.findall(r"add `\*\*kwargs` and pass them on: `([^`]+)`", refused.err)
    file = Path("algos/open.py")
    text = CLOSED.replace("closed", "open").replace("boost=2)", "boost=2, **kwargs)")
    file.write_text(text.replace("super().__init__(policy, env)", call))
    assert mygym_command(*EXPLAIN, "--algo", "open").code == 0


def test_the_method_for_a_sampler_with_step(mygym_command: Command) -> None:  # noqa: F811
    words = (*EXPLAIN, "--algo", "ppo", "--strategy", "mixture", "--set")
    Path("algos").mkdir()
    Path("algos/first.py").write_text(IN_TURN)
    refused = mygym_command(*words, "strategy_params.sampler=in_turn")
    (method,) = re.findall(r"'step' .*allowed: (\w+)\(self\)", refused.err)
    Path("algos/first.py").unlink()
    Path("algos/second.py").write_text(IN_TURN.replace("step", method).replace("in_turn", "by_turns"))
    assert mygym_command(*words, "strategy_params.sampler=by_turns").code == 0


def test_the_remedy_for_a_name_that_is_not_written_out(mygym_command: Command) -> None:  # noqa: F811
    text = CLOSED.replace("boost=2):", "**kwargs):").replace("(policy, env)\n", "(policy, env, **kwargs)\n")
    Path("mine").mkdir()
    Path("mine/named.py").write_text(text.replace('"closed"', '"".join(["co", "mputed"])'))
    assert mygym_command(*EXPLAIN, "--algo", "computed").code == 2
    assert mygym_command(*EXPLAIN, "--algo", "computed", "--import", "mine/named.py").code == 0


def test_every_hint_of_a_command_names_a_command() -> None:
    """`mygym list KIND` and the like, which messages name, exist."""
    source = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    assert set(re.findall(r"`mygym ([a-z]+)", source)) <= {*COMMANDS}
