"""Copies and pickles of an environment continue its episode in a separate physics client."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from mygym.envs.robot_env import RobotEnv
from tests.components import IDS
from tests.conftest import ROOT

KEYWORDS = {
    "reach": {"reward": "dense"},
    "pick_and_place": {"reward": "staged", "control": "joint_velocity", "goal_env": False},
    "push": {
        "randomize": {"object_size": True, "observation_noise": 0.01},
        "task_params": {
            "objects": {"cube": ["cube", "ball"]},
            "distractors": [{"object": ["can", "die"], "count": [0, 2]}],
        },
        "control": {"action_repeat": 2, "step": 0.03},
        "robot_params": {"home": [0.3, 0.3, 0.0, -2.0, 0.0, 2.3, 0.785]},
    },
    "open_drawer": {},
    "poke": {"actions": {"discrete": 3, "combined": True}},
}


def stepped_env(task: str, **keywords: Any) -> RobotEnv:
    """Return an environment in the middle of its third episode."""
    env = RobotEnv(task, **keywords)
    env.action_space.seed(5)
    env.reset(seed=4)
    env.reset()
    env.reset()
    for _ in range(20):
        env.step(env.expert_action())
    return env


def continuation(env: gymnasium.Env[Any, Any]) -> bytes:
    """Return 10 steps of the episode and the start of the next, under actions from the environment's space."""
    results = [env.step(env.action_space.sample()) for _ in range(10)]
    return pickle.dumps([results, env.reset(), env.step(env.action_space.sample())])


@pytest.mark.parametrize(
    ("make_copy", "task"),
    [
        *((copy.deepcopy, task) for task in KEYWORDS),
        (copy.copy, "pick_and_place"),
        (lambda env: pickle.loads(pickle.dumps(env)), "push"),
    ],
)
def test_a_copy_continues_like_the_original_and_does_not_disturb_it(task: str, make_copy: Callable[[Any], Any]) -> None:
    with stepped_env(task, **KEYWORDS[task]) as env, stepped_env(task, **KEYWORDS[task]) as undisturbed:
        other = make_copy(env)
        assert other.world.client != env.world.client
        copied = continuation(other)
        other.close()
        assert copied == continuation(env) == continuation(undisturbed)


def test_an_environment_can_be_copied_before_its_first_reset() -> None:
    with RobotEnv() as env, copy.deepcopy(env) as other:
        first, second = (instance.reset(seed=1)[0] for instance in (env, other))
        np.testing.assert_array_equal(first["observation"], second["observation"])


def test_later_changes_of_the_arguments_do_not_affect_copies() -> None:
    params = {"horizon": 7}
    with RobotEnv("push", task_params=params) as env:
        params["horizon"] = 9
        with copy.deepcopy(env) as other:
            assert other.task.horizon == env.task.horizon == 7


def test_every_argument_is_stored() -> None:
    with RobotEnv() as env:
        assert set(type(env.env_spec).model_fields) == set(inspect.signature(RobotEnv).parameters)


def test_copies_of_a_wrapped_environment_keep_its_spec() -> None:
    env = gymnasium.make(IDS["reach"])
    env.action_space.seed(0)
    env.reset(seed=0)
    other = copy.deepcopy(env)
    assert other.unwrapped.spec == env.unwrapped.spec is not None
    assert continuation(other) == continuation(env)
    other.close()
    env.close()


CONTINUE = f"""
from __future__ import annotations
import pickle, sys
{inspect.getsource(continuation)}
with open(sys.argv[1], "rb") as file:
    env = pickle.load(file)
sys.stdout.buffer.write(continuation(env))
"""


def test_a_pickle_continues_in_another_process(tmp_path: Path) -> None:
    with stepped_env("push") as env:
        (tmp_path / "env.pickle").write_bytes(pickle.dumps(env))
        command = [sys.executable, "-c", CONTINUE, str(tmp_path / "env.pickle")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        assert done.stdout == continuation(env)
