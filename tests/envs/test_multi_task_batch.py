"""Batches of several tasks: their episodes, the choice of tasks, snapshots, rewards of goals, and runs."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mygym
from mygym.envs import batches, starts
from mygym.envs.batch_env import BatchEnv
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.envs.multi_task_batch import MultiTaskBatch
from mygym.envs.multi_task_env import MultiTaskEnv
from mygym.errors import ConfigError, InterruptedRunError, RunError
from mygym.planning.plan import make_plan
from mygym.training.checkpoints.serialization import from_files, to_files

ENGINES = ("fused", "mujoco")

RANDOMIZE = {"action_delay": [0, 2], "object_friction": True, "joint_gain": True, "action_noise": 0.05}


@pytest.fixture(autouse=True)
def _short_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "ROWS", 64)
    monkeypatch.setattr(batches, "POOL_OF_CONTACTS", 4)
    monkeypatch.setattr(batches, "POOL", 8)


def specs(engine: str, **settings: Any) -> list[dict[str, Any]]:
    """Return reach, push, and a shorter push with another reward."""
    shared = {"spaces": "shared", "engine": engine, **settings}
    short = {"task": "push", "reward": "dense", "task_params": {"horizon": 12, "stages_done": 0.5}}
    return [{"task": "reach", **shared}, {"task": "push", **shared}, {**shared, **short}]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_episode_is_that_of_its_task_whatever_its_place(engine: str) -> None:
    """To the bit that of a `BatchEnv` of the task, while rows are taken, left and built anew."""
    rng, count, settings = np.random.default_rng(0), 6, {"randomize": RANDOMIZE, "reward": "shaped"}
    batch, seeds = MultiTaskBatch(specs(engine, **settings), count), list(range(40, 46))
    observations, sizes = batch.reset(seeds), set()
    numbers, episodes = [0] * count, []

    def begun(env: int, observations: Any) -> dict[str, Any]:
        first = {key: values[env].copy() for key, values in observations.items()}
        return {"at": (int(batch.variants[env]), seeds[env], numbers[env]), "first": first, "steps": []}

    running = [begun(env, observations) for env in range(count)]
    for step_number in range(60):
        if step_number in (15, 35):
            batch.set_weights([0, 0, 1] if step_number == 15 else [3, 1, 0])
        actions = np.where(rng.random((count, 1)) < 0.7, batch.expert_action(), rng.uniform(-1, 1, (count, 5)))
        step = batch.step(actions)
        sizes |= {(task, each.count) for task, each in batch._batches.items()}
        for env in range(count):
            last = {key: values[env].copy() for key, values in step.last.items()}
            running[env]["steps"].append((actions[env], last, step.reward[env]))
            assert step.variant[env] == running[env]["at"][0]
            if step.terminated[env] or step.truncated[env]:
                episodes.append(running[env])
                numbers[env] += 1
                running[env] = begun(env, step.observations)
    assert len(sizes) > 3  # batches have been built anew
    assert {episode["at"][0] for episode in episodes} == {0, 1, 2}
    singles = [BatchEnv(spec, 2) for spec in specs(engine, **settings)]
    for episode in [*episodes[:5], *episodes[-5:]]:
        task, seed, number = episode["at"]
        single = singles[task]
        observations = single.reset([7, seed])
        for _ in range(number):
            observations = single.reset()
        for key, value in episode["first"].items():
            np.testing.assert_array_equal(observations[key][1], value)
        for action, last, reward in episode["steps"]:
            step = single.step(np.stack([0 * action, action]))
            assert step.reward[1] == reward
            for key, value in last.items():
                np.testing.assert_array_equal(step.last[key][1], value)


def played_tasks(batch: MultiTaskBatch, seeds: list[int], episodes: int) -> dict[int, list[int]]:
    """Return seed → tasks of its episodes."""
    batch.reset(seeds)
    tasks = [batch.variants]
    for _ in range(episodes - 1):
        batch.reset()
        tasks.append(batch.variants)
    return {seed: np.array(tasks)[:, env].tolist() for env, seed in enumerate(seeds)}


def test_seed_and_number_choose_the_task_whatever_the_place() -> None:
    few, many = (MultiTaskBatch(specs("fused"), count) for count in (2, 7))
    with contextlib.closing(MultiTaskEnv(specs("pybullet"), ("a", "b", "c"))) as env:
        env.reset(seed=11)
        single = [env.variant] + [env.reset()[1]["variant"] for _ in range(5)]
    assert played_tasks(few, [4, 11], 6)[11] == single
    assert sorted(single[:3]) == [0, 1, 2]
    for batch in (few, many):
        batch.set_weights([0.0, 1.0, 3.0])
    chosen = played_tasks(few, [4, 11], 6)
    others = played_tasks(many, [9, 11, 3, 5, 4, 2, 1], 6)
    assert (chosen[4], chosen[11]) == (others[4], others[11])
    counts = np.bincount(np.concatenate(list(others.values())), minlength=3)
    assert counts[0] == 0
    assert 4 <= counts[1] <= 18
    many.set_weights([0.0, 1.0, 0.0])
    many.reset()
    assert many.variants.tolist() == [1] * 7
    assert sum(each.count for each in many._batches.values()) <= 7 + 2 * (7 + 4)


def test_weights_are_refused_as_by_a_single_environment() -> None:
    with pytest.raises(RunError, match="3 weights"):
        BatchVecEnv(specs("fused"), 2).env_method("set_weights", [1.0, 1.0])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_state_continues_to_the_bit(engine: str) -> None:
    arguments = specs(engine, randomize=RANDOMIZE)
    first, second = (BatchVecEnv(arguments, 5, codes=np.eye(3, dtype=np.float32)) for _ in range(2))
    first.seed(3)
    first.reset()
    first.env_method("set_weights", [1.0, 1.0, 2.0])
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (60, 5, 5))
    for action in actions[:30]:
        first.step(action)
    state = from_files(to_files(first.batch_state_dict()))
    np.testing.assert_equal(second.load_batch_state_dict(state), state["observations"])
    assert second.get_attr("variant") == first.get_attr("variant")
    ends = 0
    for action in actions[30:]:
        expected, restored = first.step(action), second.step(action)
        np.testing.assert_equal(restored[0], expected[0])
        np.testing.assert_equal(restored[1:], expected[1:])
        ends += expected[2].sum()
    assert ends >= 3


@pytest.mark.parametrize("goal_env", [True, False])
def test_spaces_codes_and_components_are_those_of_a_single_environment(goal_env: bool) -> None:
    codes = np.eye(3, dtype=np.float32)
    env = BatchVecEnv(specs("fused", goal_env=goal_env), 4, codes=codes)
    with contextlib.closing(MultiTaskEnv(specs("pybullet", goal_env=goal_env), ("a", "b", "c"), codes)) as single:
        assert (env.observation_space, env.action_space) == (single.observation_space, single.action_space)
        assert env.get_attr("components", [0]) == [single.components]
    env.seed(0)
    observations, ends = env.reset(), 0
    for _ in range(30):
        variants = env.get_attr("variant")
        numbers = observations["observation"] if goal_env else observations
        np.testing.assert_array_equal(numbers[:, -3:], codes[variants])
        observations, _, ended, infos = env.step(np.stack(env.env_method("expert_action")))
        assert [info["variant"] for info in infos] == variants
        for env_number in np.flatnonzero(ended):
            last = infos[env_number]["terminal_observation"]
            np.testing.assert_array_equal((last["observation"] if goal_env else last)[-3:], codes[variants[env_number]])
            ends += 1
    assert ends > 4


def test_rewards_of_goals_are_those_of_the_task_that_the_info_names() -> None:
    env, rng = BatchVecEnv(specs("fused"), 2), np.random.default_rng(0)
    size = env.observation_space["desired_goal"].shape[0]
    reached, desired = rng.normal(size=(2, 6, size)).astype(np.float32)
    infos = [{"variant": number % 3} for number in range(6)]
    (rewards,) = env.env_method("compute_reward", reached, desired, infos, indices=[0])
    for number in range(6):
        with contextlib.closing(MultiTaskEnv(specs("pybullet"), ("a", "b", "c"))) as single:
            assert rewards[number] == single.compute_reward(reached[number], desired[number], infos[number])
    with pytest.raises(RunError, match="copy_info_dict"):
        env.env_method("compute_reward", reached, desired, [{}] * 6, indices=[0])


def test_tasks_with_other_spaces_are_refused() -> None:
    envs = BatchVecEnv([{"task": "reach"}, {"task": "push"}], 2)
    envs.seed(0)  # the seeds 0 and 1 play one task each
    with pytest.raises(ConfigError, match=r"push.*spaces: shared"):
        envs.reset()


def test_what_an_engine_cannot_represent_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"task: 'press'"):
        make_plan({"engine": "fused", "strategy": "multitask", "strategy_params": {"tasks": ["reach", "press"]}})


SHORT: dict[str, Any] = {
    "algo": "ppo",
    "n_envs": 4,
    "algo_params": {"n_steps": 16, "batch_size": 32, "learning_rate": 1e-3},
    "eval": {"every": 100_000, "episodes": 2, "final_episodes": 2},
    "video": {"episodes": 0},
    "tensorboard": False,
    "stop_at_success": None,
}

LEVELS = [{"task_params": {"stages_done": 0.5, "horizon": 10}}, {"task_params": {"horizon": 10}}]

RUNS: dict[str, dict[str, Any]] = {
    "multitask": {"strategy": "multitask", "strategy_params": {"sampler": "adaptive", "identify": "one_hot"}},
    "ewc": {"strategy": "ewc"},
    "curriculum": {
        "strategy": "curriculum",
        "task": "push",
        "strategy_params": {"levels": LEVELS, "window": 2, "patience": 64},
    },
}


@pytest.mark.parametrize(
    ("engine", "strategy"),
    [
        ("fused", "multitask"),
        ("mujoco", "curriculum"),
        *(pytest.param(engine, "ewc", marks=pytest.mark.slow) for engine in ENGINES),
        pytest.param("fused", "curriculum", marks=pytest.mark.slow),
        pytest.param("mujoco", "multitask", marks=pytest.mark.slow),
    ],
)
def test_a_resumed_run_ends_with_the_same_weights(
    engine: str, strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {**SHORT, **RUNS[strategy], "engine": engine, "steps": 320}
    whole = mygym.train({**config, "logdir": str(tmp_path / "whole")})
    step_wait, steps = BatchVecEnv.step_wait, []

    def stopping(self: BatchVecEnv) -> Any:
        steps.append(1)
        if len(steps) == 40:
            os.kill(os.getpid(), signal.SIGTERM)
        return step_wait(self)

    monkeypatch.setattr(BatchVecEnv, "step_wait", stopping)
    with pytest.raises(InterruptedRunError) as stopped:
        mygym.train({**config, "logdir": str(tmp_path / "stopped")})
    resumed = mygym.train(resume=stopped.value.run)
    assert len(steps) >= 40
    assert (whole.steps, resumed.steps, whole.engine) == (320, 320, engine)
    saved = [(run.path / "policy.safetensors").read_bytes() for run in (whole, resumed)]
    assert saved[0] == saved[1]
    if strategy != "curriculum":
        assert set(whole.success_by_task) == {"reach", "push"}
