"""Easier tasks first."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.logger import Logger

import mygym
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.runs import factory
from mygym.runs.resolve_config import from_python, resolve_config
from mygym.runs.plan import plan_of
from mygym.strategies.curriculum import Curriculum
from mygym.strategies.requirements import prepared
from tests.components import TASKS


def settled(**said: Any) -> Any:
    return resolve_config(overrides={"strategy": "curriculum", **said}).config


@pytest.mark.parametrize("task", [*TASKS, "AGMDW", "AGR"])
@pytest.mark.parametrize("way", ["forward", "backward"])
def test_every_task_has_easier_levels(task: str, way: str) -> None:
    config = settled(task=task, strategy_params={"levels": way})
    levels = plan_of(config).variants
    assert len(levels) >= 2
    assert levels[-1].config == config
    assert len({one.label for one in levels}) == len(levels)


@pytest.mark.parametrize("task", ["reach", "AGM", "open_drawer", "set_table"])
@pytest.mark.parametrize("way", ["forward", "backward"])
def test_they_are_played_with_one_network(task: str, way: str) -> None:
    config = settled(task=task, algo="ppo", strategy_params={"levels": way})
    env = factory.make_vec_env(config.model_copy(update={"n_envs": 1}))  # refuses spaces that differ
    env.close()


def test_hindsight_does_without_staged_levels() -> None:
    """The buffer would hold rewards that no goal decides."""
    levels = {"levels": [{"reward": "staged"}]}
    assert settled(task="AGM", algo="sac", reward="sparse", strategy_params={"levels": [{"reward": "dense"}]}).her
    assert not settled(task="AGM", algo="sac", reward="sparse", strategy_params=levels).her
    with pytest.raises(ConfigError, match="cannot relabel the staged reward"):
        settled(task="AGM", algo="sac", reward="sparse", her=True, strategy_params=levels)


def test_levels_of_stages() -> None:
    assert [one.label for one in plan_of(settled(task="AGM", strategy_params={"levels": "forward"})).variants] == [
        "approach",
        "approach_grasp",
        "AGM",
    ]


def test_levels_of_stages_keep_what_the_user_has_changed() -> None:
    """Each in its share of the time; objects and areas where the level has them."""
    said = {"object": "cylinder", "rotation": [0, 0.5], "horizon": 200, "tolerance": 0.03, "distractors": ["apple"]}
    areas = {"cube_start": {"low": [-0.1, -0.1, 0.02], "high": [0.0, 0.1, 0.02]}}
    config = settled(task="AGM", task_params={**said, "areas": areas}, strategy_params={"levels": "forward"})
    params = [one.config.task_params for one in plan_of(config).variants]
    assert [one.horizon for one in params] == [67, 134, 200]
    assert {(one.tolerance, one.rotation) for one in params} == {(0.03, (0.0, 0.5))}
    assert [[thing.object for thing in one.distractors or ()] for one in params] == [["apple"]] * 3
    assert [set(one.areas) for one in params] == [set(), {"cube_start"}, {"cube_start"}]  # approach: a point in the air
    assert params[1].objects == {"cube": "cylinder"}
    factory.make_vec_env(config.model_copy(update={"n_envs": 1})).close()


def test_levels_from_the_end() -> None:
    levels = plan_of(settled(task="AGM", task_params={"horizon": 60}, strategy_params={"levels": "backward"})).variants
    begun = [one.config.task_params.stages_done for one in levels]
    assert begun == [2.0, 1.667, 1.333, 1.0, 0.667, 0.333, 0.0]
    assert [one.config.task_params.horizon for one in levels] == [20, 27, 34, 40, 47, 54, 60]


@pytest.mark.parametrize("task", [*TASKS, "AGM", "AGMDW"])
def test_from_the_end_there_is_less_and_less_done(task: str) -> None:
    """A level begins with the potential that it says, or a step beyond, however little time it has itself."""
    levels = [one for one in plan_of(settled(task=task)).variants if one.config.task_params.stages_done]
    for one in {levels[0].label: levels[0], levels[-1].label: levels[-1]}.values() if levels else ():
        with contextlib.closing(RobotEnv(**factory.env_arguments(one.config))) as env:
            said = one.config.task_params.stages_done
            assert said is not None
            for seed in range(2):
                _, info = env.reset(seed=seed)
                assert said <= len(env.task.stage_names) + float(env._potential[0])
                assert info["stage"] >= int(said)


@pytest.fixture
def curriculum(request: pytest.FixtureRequest) -> Iterator[Curriculum]:
    params = {
        "levels": "forward",
        "window": 4,
        "advance_at": 0.75,
        "go_back_at": 0.25,
        "rehearsal": 0.2,
        **getattr(request, "param", {}),
    }
    config = from_python({"strategy": "curriculum", "task": "AGM", "strategy_params": params}).config
    env = factory.make_vec_env(config)
    model = factory.build_model(config, env)
    model.set_logger(Logger(None, []))
    (strategy,) = prepared(config, env, model)
    assert isinstance(strategy, Curriculum)
    yield strategy
    env.close()


def shares(strategy: Curriculum) -> list[float]:
    weights = strategy.training_env.get_attr("_weights")
    assert all(np.array_equal(one, weights[0]) for one in weights)
    return [round(float(weight), 6) for weight in weights[0]]


def outcomes(strategy: Curriculum, *successes: bool, variant: int | None = None) -> None:
    for success in successes:
        strategy.on_episode(strategy.level if variant is None else variant, success, 0.0)
    strategy.step()


def test_it_goes_on_with_success_and_back_without(curriculum: Curriculum) -> None:
    assert shares(curriculum) == [1.0, 0.0, 0.0]
    outcomes(curriculum, True, True, True)
    assert curriculum.level == 0  # three are too few to measure by
    outcomes(curriculum, False)
    assert (curriculum.level, shares(curriculum)) == (1, [0.2, 0.8, 0.0])
    outcomes(curriculum, True, True, True, True, variant=0)
    outcomes(curriculum, True, True, True, True, variant=2)
    assert curriculum.level == 1  # of other levels
    outcomes(curriculum, True, True, True, True)
    assert (curriculum.level, shares(curriculum)) == (2, [0.1, 0.1, 0.8])
    outcomes(curriculum, True, True, True, True)
    assert curriculum.level == 2  # the last
    outcomes(curriculum, False, False, False, False)
    assert curriculum.level == 2  # what is new may take its time
    outcomes(curriculum, False, False, True, variant=0)
    assert curriculum.level == 2
    outcomes(curriculum, False, variant=1)
    assert curriculum.level == 2  # a quarter is enough
    outcomes(curriculum, False, False, False, variant=1)
    assert curriculum.level == 1  # what was mastered is forgotten
    assert (curriculum.outcomes, curriculum.rehearsed) == ([], [])


def test_a_run_says_which_level_it_has_come_to(tmp_path: Path) -> None:
    """Here to the last, by patience; a goal of 20 cm leaves few places where nothing is solved yet."""
    params = {"levels": [{"task_params": {"tolerance": 0.2}}], "patience": 40}
    said = {"strategy": "curriculum", "strategy_params": params, "algo": "sac", "steps": 120, "n_envs": 1}
    said |= {"eval": {"every": 30, "episodes": 1, "final_episodes": 1}, "video": {"episodes": 0}}
    result = mygym.train({**said, "logdir": str(tmp_path)})
    assert result.strategy == {"curriculum": {"level": 1, "last_level": 1}}
    assert [one["strategy"]["curriculum"]["level"] for one in result.evaluations] == [0, 0, 1, 1, 1]
    written = json.loads((result.path / "result.json").read_text())
    assert (written["strategy"], written["evaluations"]) == (result.strategy, result.evaluations)
    logged = [json.loads(line) for line in (result.path / "progress.jsonl").read_text().splitlines()]
    assert {one["strategy/level"] for one in logged if "strategy/level" in one} == {0, 1}


@pytest.mark.parametrize("curriculum", [{"patience": 100}], indirect=True)
def test_patience_has_an_end(curriculum: Curriculum) -> None:
    curriculum.model.num_timesteps = 99
    outcomes(curriculum)
    assert curriculum.level == 0
    curriculum.model.num_timesteps = 100
    outcomes(curriculum)
    assert curriculum.level == 1
    outcomes(curriculum, False, False, False, False, variant=0)
    assert curriculum.level == 1


@pytest.mark.parametrize(
    ("params", "key"),
    [
        ({"advance_at": 0.0}, "advance_at"),
        ({"advance_at": 1.2}, "advance_at"),
        ({"go_back_at": 0.9}, "go_back_at"),
        ({"window": 0}, "window"),
        ({"patience": 0}, "patience"),
        ({"rehearsal": 1.0}, "rehearsal"),
        ({"advanced_at": 0.5}, "did you mean 'advance_at'"),
        ({"levels": "A"}, "levels"),
        ({"levels": "backwards"}, "did you mean 'backward'"),
        ({"levels": [{"task": "GA"}]}, "GA"),
        ({"levels": [{"tasks": "A"}]}, "did you mean 'task'"),
        ({"levels": [{"task_params": {"tolerence": 0.1}}]}, "tolerence"),
        ({"levels": []}, "strategy_params.levels"),
        ({"levels": [{"task_params": {"tolerance": 0.6}}]}, "areas.*or a smaller tolerance"),
    ],
)
def test_what_makes_no_sense_is_refused(params: dict[str, Any], key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=key):
        mygym.train({"strategy": "curriculum", "strategy_params": params, "logdir": str(tmp_path)})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("algo", "params", "steps", "least"),
    [
        ("sac", {}, 80, 6 * 30),
        ("sac", {"patience": 10}, 60, 6 * 10),
        ("ppo", {}, 6 * 1024, 6 * 1024),  # a level for each rollout
        ("ppo", {"patience": 10}, 6 * 1024, 6 * 1024),
    ],
)
def test_levels_that_cannot_be_climbed_in_time_are_refused(
    algo: str, params: dict[str, Any], steps: int, least: int, tmp_path: Path
) -> None:
    rollouts = {"algo_params": {"n_steps": 128}, "n_envs": 8} if algo == "ppo" else {}
    said = {"strategy": "curriculum", "strategy_params": params, "task": "AGM", "algo": algo, "steps": steps}
    with pytest.raises(ConfigError, match=rf"steps: {steps} never reach the last of 7 .* more than {least};"):
        mygym.train({**said, **rollouts, "logdir": str(tmp_path)})
    assert not list(tmp_path.iterdir())
