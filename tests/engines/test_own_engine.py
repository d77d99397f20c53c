"""A third engine, `envs/ideal.py`, which is one file: what the others do with it, and what it refuses."""

from __future__ import annotations

import copy
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_for_sb3

import mygym
from mygym.engines.engine import find_engine, inspection_of, make_world
from mygym.engines.world import World, WorldSpec
from mygym.envs.areas import reached
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, RegistryError, RunError
from mygym.planning.plan import make_plan
from mygym.registry import registry
from mygym.robotics.robot import load_robot
from mygym.robotics.workspace import Area, load_workspace
from mygym.tasks.state import State
from tests.episodes import play

IDEAL = {"engine": "ideal"}


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])


def world_of(robot: str = "panda", workspace: str = "table", engine: str = "ideal") -> World:
    return make_world(WorldSpec(load_robot(robot), load_workspace(workspace)), engine)


@pytest.mark.parametrize("arguments", [{}, {"goal_env": False}, {"actions": {"discrete": 5}}])
def test_environments_keep_the_protocols(arguments: dict[str, Any]) -> None:
    with closing(gymnasium.make("mygym/Reach-v0", **IDEAL, **arguments)) as env, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env.unwrapped, skip_render_check=True)
        check_for_sb3(env.unwrapped)


@pytest.mark.parametrize("control", ["ee_delta", "joint_delta", "joint_position"])
def test_the_scripted_expert_solves_reach(control: str) -> None:
    config = {**IDEAL, "control": control}
    assert mygym.evaluate(policy="oracle", config=config, episodes=10).success_rate == 1.0
    assert mygym.evaluate(policy="zero", config=config, episodes=10).success_rate == 0.0


def test_a_policy_learns_and_continues_in_bullet(tmp_path: Path) -> None:
    quiet = {"tensorboard": False, "video": {"episodes": 0}, "checkpoint": {"every": 10_000}}
    budget = {"steps": 800, "stop_at_success": None, "eval": {"every": 800, "episodes": 1, "final_episodes": 1}}
    small = {"algo": "bc", "n_envs": 4, "algo_params": {"policy_kwargs": {"net_arch": [32, 32]}}}
    result = mygym.train({**IDEAL, **quiet, **budget, **small, "logdir": str(tmp_path)})
    assert result.engine == "ideal"
    for engine in ("ideal", "pybullet"):
        with closing(RobotEnv(engine=engine)) as env:
            policy, solved = mygym.load(result.path), 0
            for seed in range(10):
                steps = play(env, seed, lambda observation, policy=policy: policy.predict(observation)[0])
                solved += steps[-1][4]["is_success"]
        assert solved >= 6, engine


def test_episodes_are_those_of_their_seeds() -> None:
    with closing(RobotEnv(**IDEAL)) as env, closing(RobotEnv()) as bullet:
        first, _ = env.reset(seed=5)
        for _ in range(3):
            env.step(env.action_space.sample())
        with closing(copy.deepcopy(env)) as other:
            action = env.action_space.sample()
            np.testing.assert_array_equal(other.step(action)[0]["observation"], env.step(action)[0]["observation"])
        again, _ = env.reset(seed=5)
        np.testing.assert_array_equal(again["observation"], first["observation"])
        np.testing.assert_array_equal(bullet.reset(seed=5)[0]["desired_goal"], first["desired_goal"])


def test_shapes_are_those_of_bullet() -> None:
    box = Area((-0.2, -0.2, -0.05), (0.2, 0.2, 0.05))
    with closing(world_of()) as ideal, closing(world_of(engine="pybullet")) as bullet:
        assert ideal.inspection is None
        answers = []
        for world in (ideal, bullet):
            with inspection_of(world) as shapes:
                answers.append((shapes.collisions(), shapes.fixtures_in(box), shapes.robot_overlaps(box)))
                corners = shapes.robot_corners()
        assert answers[0] == answers[1]
        assert answers[0][1] == ["table"]
        assert corners.max() > 0.5
        areas = ideal.workspace.areas["reach"], bullet.workspace.areas["reach"]
        assert reached(ideal, areas[0]) == reached(bullet, areas[1]) == (1.0, None)


def test_a_camera_sees_the_same_arm() -> None:
    images = []
    for engine in ("ideal", "pybullet"):
        with closing(RobotEnv(engine=engine, render_mode="rgb_array", render_width=64, render_height=48)) as env:
            env.reset(seed=0)
            images.append(env.render())
    np.testing.assert_array_equal(*images)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"engine": "ideel"}, ["engine", "'ideel'", "did you mean 'ideal'"]),
        ({**IDEAL, "task": "push"}, ["engine", "'ideal'", "pybullet", "objects"]),
        ({**IDEAL, "control": "joint_torque"}, ["control", "'joint_torque'", "positions"]),
    ],
)
def test_what_it_cannot_represent_is_refused(config: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        mygym.make_env(config)
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_plan_knows_the_engine() -> None:
    assert make_plan({**IDEAL, "n_envs": 4, "env_processes": 2}).config.engine == "ideal"
    with pytest.raises(ConfigError, match="n_envs: 2000"):
        make_plan({**IDEAL, "n_envs": 2000})


def test_snapshots_need_an_engine_that_has_them() -> None:
    with closing(RobotEnv(**IDEAL)) as env:
        env.reset(seed=0)
        with pytest.raises(RunError, match="IdealArm"):
            env.snapshot()


def test_only_worlds_are_engines() -> None:
    from mygym.engines.engine import register_engine

    with pytest.raises(RegistryError, match="World"):
        register_engine("square")(int)
    assert "square" not in registry("engine")
    with pytest.raises(ConfigError, match=r'make_vec.*engine="fused"'):
        find_engine("fused")


def test_a_constructor_that_raises_closes_its_world() -> None:
    closed: list[World] = []

    class Broken(find_engine("ideal")):  # type: ignore[misc]
        def _read(self, state: State) -> None:
            raise RuntimeError("no sensors")

        def close(self) -> None:
            closed.append(self)

    with pytest.raises(RuntimeError, match="no sensors"):
        Broken(WorldSpec(load_robot("panda"), load_workspace("table")))
    assert len(closed) == 1
