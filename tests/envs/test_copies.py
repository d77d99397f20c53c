"""Copies and pickles of an environment: alive, where it was, with a physics client of their own."""

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

USED = {
    "reach": {"reward": "dense"},
    "pick_and_place": {"reward": "staged", "control": "joint_velocity", "goal_env": False},
    "push": {"randomize": {"object_size": True, "observation_noise": 0.01}, "task_params": {"distractors": ["can"]}},
    "open_drawer": {},
}


def used(task: str, **keywords: Any) -> RobotEnv:
    """In the middle of its third episode."""
    env = RobotEnv(task, **keywords)
    env.action_space.seed(5)
    env.reset(seed=4)
    env.reset()
    env.reset()
    for _ in range(20):
        env.step(env.expert_action())
    return env


def goes_on(env: gymnasium.Env[Any, Any]) -> bytes:
    """What it shows under actions drawn from its own space: the rest of the episode, and the next."""
    seen = [env.step(env.action_space.sample()) for _ in range(10)]
    return pickle.dumps([seen, env.reset(), env.step(env.action_space.sample())])


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize("task", USED)
def test_a_copy_goes_on_as_the_original_does_and_disturbs_it_not(task: str, again: Callable[[Any], Any]) -> None:
    with used(task, **USED[task]) as env, used(task, **USED[task]) as undisturbed:
        other = again(env)
        assert other.world.client != env.world.client
        copied = goes_on(other)
        other.close()
        assert copied == goes_on(env) == goes_on(undisturbed)


def test_an_environment_that_was_never_reset_has_copies_too() -> None:
    with RobotEnv() as env, copy.deepcopy(env) as other:
        first, second = (one.reset(seed=1)[0] for one in (env, other))
        np.testing.assert_array_equal(first["observation"], second["observation"])


def test_what_a_caller_does_with_its_arguments_afterwards_changes_no_copy() -> None:
    params = {"horizon": 7}
    with RobotEnv("push", task_params=params) as env:
        params["horizon"] = 9
        with copy.deepcopy(env) as other:
            assert other.task.horizon == env.task.horizon == 7


def test_every_argument_is_remembered() -> None:
    with RobotEnv() as env:
        assert list(env._arguments) == list(inspect.signature(RobotEnv).parameters)


def test_a_wrapped_environment_has_copies_with_its_spec() -> None:
    env = gymnasium.make(IDS["reach"])
    env.action_space.seed(0)
    env.reset(seed=0)
    other = copy.deepcopy(env)
    assert other.unwrapped.spec == env.unwrapped.spec is not None
    assert goes_on(other) == goes_on(env)
    other.close()
    env.close()


GO_ON = """
import pickle, sys
from tests.envs.test_copies import goes_on
with open(sys.argv[1], "rb") as file:
    env = pickle.load(file)
sys.stdout.buffer.write(goes_on(env))
"""


def test_a_pickle_goes_on_in_another_process(tmp_path: Path) -> None:
    with used("push") as env:
        (tmp_path / "env.pickle").write_bytes(pickle.dumps(env))
        command = [sys.executable, "-c", GO_ON, str(tmp_path / "env.pickle")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        assert done.stdout == goes_on(env)
