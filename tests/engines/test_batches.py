"""Batches of an engine of one's own, against `RobotEnv` in it: rows of all tasks, randomization, later starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from safetensors.numpy import load_file

import mygym
from mygym.engines.arrays import uniform
from mygym.engines.engine import engines_with_batches, has_batches, judge_of, make_world, register_engine
from mygym.engines.world import WorldSpec
from mygym.envs import batches, starts
from mygym.envs.batch_env import BatchEnv
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.envs.batch_vector_env import BatchVectorEnv
from mygym.envs.episode_seeds import make_generator
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.planning.derived import env_spec
from mygym.planning.plan import make_plan
from mygym.registry import registry
from mygym.robotics.robot import load_robot
from mygym.robotics.workspace import load_workspace
from mygym.training.env_factory import make_vec_env
from tests.components import TASKS_QUICKLY
from tests.engines.side_by_side import SideBySide

ENGINE = {"engine": "side_by_side"}

REPEATED = {"control": {"name": "ee_delta", "action_repeat": 2}}

OVERLAPPING = {
    "algo": "sac",
    "her": False,
    "reward": "shaped",
    "overlap": True,
    "algo_params": {"learning_starts": 16, "batch_size": 16},
}

PARAMS = {"n_steps": 8, "batch_size": 16, "learning_rate": 1e-3}


@pytest.fixture(autouse=True, scope="module")
def _registered() -> Iterator[None]:
    register_engine("side_by_side")(SideBySide)
    yield
    registry("engine").remove("side_by_side")


def begin_as(env: RobotEnv, seed: int) -> Any:
    """Let an environment begin the first episode that a batch has for a seed; return the observation."""
    drawn = uniform(np.array([seed]), np.array([0]), 1)[0, 0]
    env._begin_episode(make_generator(np.random.SeedSequence(starts.FIRST_SEED + int(drawn * starts.ROWS))))
    return env._observer.observe()


def play_both(
    count: int, noise: float = 0.0, steps: int = 1000, engine: str = "side_by_side", **arguments: Any
) -> list[bool]:
    """Play the expert's actions in a batch and in `RobotEnv`; return which episodes succeed.

    Args:
        count: Number of episodes.
        noise: Largest change of the expert's actions.
        steps: Most control steps.
        engine: An engine whose worlds have, in a batch, the numbers of a single one.
        **arguments: Other arguments of `RobotEnv`.
    """
    arguments["engine"] = engine
    rng, batch = np.random.default_rng(0), BatchEnv(arguments, count)
    running, solved = np.ones(count, dtype=bool), np.zeros(count, dtype=bool)
    with ExitStack() as stack:
        envs = [stack.enter_context(closing(RobotEnv(**arguments))) for _ in range(count)]
        first = batch.reset(range(count))
        for row, env in enumerate(envs):
            for key, value in begin_as(env, row).items():
                np.testing.assert_allclose(first[key][row], value, atol=1e-6)
        while running.any() and steps:
            actions = batch.expert_action()
            for row in np.flatnonzero(running):
                np.testing.assert_allclose(actions[row], envs[row].expert_action(), atol=1e-5)
            actions = (actions + noise * rng.uniform(-1.0, 1.0, actions.shape)).astype(np.float32)
            step, steps = batch.step(actions), steps - 1
            for row in np.flatnonzero(running):
                observation, reward, terminated, truncated, info = envs[row].step(actions[row])
                for key, value in observation.items():
                    np.testing.assert_allclose(step.last[key][row], value, atol=1e-6)
                assert step.reward[row] == pytest.approx(reward, abs=1e-5)
                assert (step.terminated[row], step.truncated[row]) == (terminated, truncated)
                for name in ("failed", "touched", "stage", "stages_done"):
                    assert getattr(step, name)[row] == info[name], name
                assert step.saturation[row] == pytest.approx(info["saturation"], abs=1e-4)
            solved |= running & step.success
            running &= ~(step.terminated | step.truncated)
    return solved.tolist()


@pytest.mark.parametrize("task", TASKS_QUICKLY)
def test_rows_are_the_episodes_of_single_environments(task: str) -> None:
    """Goals, parts, paths and a second arm are the same, and the expert solves every task in a batch."""
    assert play_both(2, task=task, reward="staged") == [True] * 2


PHYSICAL = {
    "object_mass": 2.0,
    "object_friction": 0.8,
    "object_damping": 0.2,
    "joint_friction": 0.05,
    "joint_gain": 0.9,
}


@pytest.mark.parametrize(
    "arguments",
    [
        {"task": "stack", "randomize": PHYSICAL},
        {"task": "pick_and_place", "randomize": {"action_delay": 3}},
        {"task": "lift", "control": "joint_position", "randomize": {"action_delay": 3}},
        {"task": "hand_over", "control": "joint_delta", "randomize": {"action_delay": 1, "joint_gain": 0.9}},
        {"task": "reach", "control": "joint_velocity"},
        {"task": "push", "control": "joint_torque"},
        {"task": "lift", "spaces": "shared", "goal_env": True},
        {"task": "push", "task_params": {"distractors": [{"object": "cube", "speed": 0.1}, {"object": "ball"}]}},
        {"task": [{"stages": "AGMDW", "object": "cube", "area": "surface"}, {"stages": "AGM", "object": "cube"}]},
    ],
    ids=str,
)
def test_rows_are_those_of_single_environments_with_other_arguments(arguments: dict[str, Any]) -> None:
    """With randomizers at a constant value, episodes of a batch are those of `RobotEnv`."""
    play_both(2, noise=0.2, steps=40, **arguments)


def test_each_object_has_its_own_randomization() -> None:
    randomize = {"object_mass": True, "object_friction": True, "joint_friction": True, "action_noise": 0.1}
    envs = BatchEnv({"task": "stack", "randomize": randomize, **ENGINE}, 4)
    envs.reset(range(4))
    values = envs.episodes.disturbances.values  # type: ignore[union-attr]
    assert (values["object_mass"].shape, values["joint_friction"].shape) == ((2, 4), (7, 4))
    assert len(np.unique(values["object_mass"])) == 8
    for row, world in enumerate(envs.worlds.worlds):
        assert world.randomization.object_mass == tuple(values["object_mass"][:, row].tolist())


def test_some_episodes_begin_at_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "POOL_OF_CONTACTS", 3)
    arguments = {
        "task": "pick_and_place",
        "task_params": {"starts": {"in_hand": 0.5}},
        "randomize": {"action_delay": 2},
    }
    envs = BatchEnv({**arguments, **ENGINE}, 8)
    envs.reset(range(8))
    held = envs.worlds.state.finger_contact.all(axis=(1, 2))
    assert 0 < held.sum() < 8
    np.testing.assert_array_equal(envs.episodes.progress.stage, np.where(held, 2, 0))
    for _ in range(2):  # until the first action has an effect, hands hold what they have
        envs.step(np.ones((8, 4)))
        np.testing.assert_array_equal(envs.worlds.state.finger_contact.all(axis=(1, 2)), held)


def test_a_state_continues_to_the_bit() -> None:
    arguments = {"task": "push", "randomize": {"joint_gain": True, "action_delay": [0, 2]}, **ENGINE}
    first, second = BatchVecEnv(arguments, 2), BatchVecEnv(arguments, 2)
    first.seed(3)
    first.reset()
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 2, 3))
    for action in actions[:10]:
        first.step(action)
    second.load_batch_state_dict(first.batch_state_dict())
    for action in actions[10:]:
        observations, expected = second.step(action)[0], first.step(action)[0]
        for key, value in expected.items():
            np.testing.assert_array_equal(observations[key], value)


def test_engines_say_whether_they_have_batches() -> None:
    assert {"fused", "side_by_side"} <= set(engines_with_batches())
    assert [has_batches(name) for name in ("fused", "side_by_side", "pybullet")] == [True, True, False]
    assert [judge_of(name) for name in ("fused", "side_by_side", "pybullet")] == [
        "pybullet",
        "side_by_side",
        "pybullet",
    ]
    world = make_world(WorldSpec(load_robot("panda"), load_workspace("table")))
    with closing(world), pytest.raises(ConfigError, match=r"num_envs: 4 .*BulletWorld"):
        world.batch(4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"engine": "pybullet"}, ["engine", "'pybullet'", "side_by_side", "fused"]),
        ({"control": {"name": "ee_delta", "action_repeat": 2}}, ["control.action_repeat", "2", "side_by_side"]),
        ({"observations": ["image"]}, ["observations", "'image'", "side_by_side"]),
        ({"task": "push", "task_params": {"objects": {"cube": ["cube", "apple"]}}}, ["task_params.objects", "apple"]),
        ({"task_params": {"distractors": [{"object": "cube", "count": [0, 2]}]}}, ["task_params.distractors", "cube"]),
        ({"randomize": {"light": True}}, ["randomize", "'light'", "side_by_side", "joint_friction", "action_delay"]),
        ({"task": "push", "randomize": {"object_size": True}}, ["randomize", "'object_size'", "side_by_side"]),
    ],
    ids=str,
)
def test_what_no_batch_has_is_refused_by_name(arguments: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        BatchEnv({**ENGINE, **arguments}, 2)
    assert all(word in str(caught.value) for word in words), caught.value


def test_arrays_of_another_library_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"output: 'torch'.*side_by_side"):
        BatchEnv(ENGINE, 2, output="torch")


def short_run(logdir: Path, **values: Any) -> dict[str, Any]:
    """Config of a run of 64 steps."""
    quiet = {"tensorboard": False, "video": {"episodes": 0}, "logdir": str(logdir), "stop_at_success": None}
    budget = {"steps": 64, "n_envs": 4, "eval": {"every": 64, "episodes": 1, "final_episodes": 1}}
    config = {**quiet, **budget, "task": "press", "algo": "ppo", "algo_params": PARAMS, **values}
    return {**config, "task_params": {"horizon": 10, **values.get("task_params", {})}}


def check_continued(config: dict[str, Any]) -> mygym.Result:
    """Check that a run that is continued has the weights of one that is not interrupted; return the latter."""
    short = mygym.train(config)
    first = mygym.train({**config, "steps": 96})
    resumed = mygym.train({**config, "steps": 96}, resume=short.path)
    states = [load_file(result.path / "policy.safetensors") for result in (first, resumed)]
    assert (first.steps, resumed.steps) == (96, 96)
    for name, tensor in states[0].items():
        np.testing.assert_array_equal(tensor, states[1][name])
    return first


def test_training_steps_a_batch_and_evaluates_in_the_same_engine(tmp_path: Path) -> None:
    config = short_run(tmp_path, **ENGINE)
    plan = make_plan(config)
    assert (plan.config.env_processes, env_spec(plan.config).engine) == ("auto", "side_by_side")
    with closing(make_vec_env(plan)) as env:
        assert isinstance(env.unwrapped, BatchVecEnv)
        assert type(env.unwrapped.batch.worlds).__name__ == "BulletWorlds"
    assert check_continued(config).engine == "side_by_side"


@pytest.mark.parametrize(
    "alone",
    [
        {"observations": ["image", "ee_position"], "image_params": {"width": 36, "height": 36}},
        {"task": "push", "strategy": "multitask", "strategy_params": {"tasks": ["push", "press"]}, **REPEATED},
        {"task": "push", "task_params": {"objects": {"cube": ["cube", "apple"]}}, **REPEATED, **OVERLAPPING},
    ],
    ids=str,
)
def test_what_no_batch_has_is_trained_in_single_worlds(alone: dict[str, Any], tmp_path: Path) -> None:
    config = short_run(tmp_path, engine="mujoco", **alone)
    plan = make_plan({**config, "env_processes": 2})
    with closing(make_vec_env(plan)) as env:
        assert (type(env.unwrapped).__name__, plan.config.n_envs) == ("ProcessVecEnv", 4)
        assert {spec.engine for spec in env.get_attr("env_spec")} == {"mujoco"}
    assert check_continued(config).engine == "mujoco"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"env_processes": 2}, ["env_processes", "2", "side_by_side", "false"]),
        ({"n_envs": 2000}, ["n_envs", "2000", "1024", "fused"]),
        ({"overlap": True, "algo": "sac"}, ["overlap", "side_by_side"]),
        ({"engine": "fused", "observations": ["image"]}, ["observations", "image", "fused"]),
    ],
    ids=str,
)
def test_a_plan_refuses_what_a_batch_cannot_train(values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        make_plan({**ENGINE, "algo": "ppo", **values})
    assert all(word in str(caught.value) for word in words), caught.value


def test_gymnasium_makes_a_batch() -> None:
    envs = gymnasium.make_vec("mygym/OpenDrawer-v0", num_envs=2, max_episode_steps=4, **ENGINE)
    assert isinstance(envs, BatchVectorEnv)
    envs.reset(seed=0)
    ended = [envs.step(envs.expert_action())[3].tolist() for _ in range(4)]
    assert ended == [[False, False]] * 3 + [[True, True]]
    with closing(gymnasium.make("mygym/OpenDrawer-v0", **ENGINE)) as env:
        assert isinstance(env.unwrapped.world, SideBySide)


@pytest.mark.parametrize(
    "arguments",
    [{"observations": ["image", "ee_position"]}, {"control": {"action_repeat": 2}}],
    ids=str,
)
def test_gymnasium_makes_single_worlds_of_what_no_batch_can_have(arguments: dict[str, Any]) -> None:
    with (
        closing(gymnasium.make_vec("mygym/Reach-v0", num_envs=2, max_episode_steps=4, **ENGINE, **arguments)) as envs,
        closing(gymnasium.make("mygym/Reach-v0", **ENGINE, **arguments)) as alone,
    ):
        observations, _ = envs.reset(seed=5)
        for row, seed in enumerate((5, 6)):
            expected, _ = alone.reset(seed=seed)
            for key, value in expected.items():
                np.testing.assert_array_equal(observations[key][row], value)
        for _ in range(4):
            *_, infos = envs.step(np.zeros(envs.action_space.shape, np.float32))
        assert infos["_final_obs"].all()  # the next episode has begun, as in a batch


@pytest.mark.parametrize("arguments", [{**ENGINE, "observations": ["image"]}, {"engine": "pybullet"}], ids=str)
@pytest.mark.parametrize(("key", "value"), [("output", "torch"), ("device", "cuda")])
def test_single_worlds_are_of_numpy_on_the_cpu(key: str, value: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{key}: '{value}' is for batches.*allowed: "):
        gymnasium.make_vec("mygym/Reach-v0", num_envs=1, **arguments, **{key: value})


def test_an_algorithm_has_more_environments_in_a_batch() -> None:
    alone, batch, own = (
        make_plan({"algo": "ppo", "task": "reach", **more}).config
        for more in ({}, ENGINE, {**ENGINE, "n_envs": 4, "algo_params": {"n_steps": 8}})
    )
    assert (batch.n_envs, own.n_envs, own.algo_params["n_steps"]) == (32, 4, 8)
    rollouts = [config.n_envs * config.algo_params["n_steps"] for config in (alone, batch)]
    assert rollouts[0] == rollouts[1]
    assert (
        make_plan({"algo": "sac", "task": "reach", **ENGINE}).config.n_envs == make_plan({"algo": "sac"}).config.n_envs
    )
