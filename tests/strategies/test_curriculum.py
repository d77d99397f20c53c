"""Tests of strategy `curriculum`."""

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
from mygym.planning.derived import env_spec
from mygym.planning.plan import plan_of
from mygym.planning.resolve import from_python, resolve_config
from mygym.strategies.curriculum import Curriculum
from mygym.strategies.requirements import prepared
from mygym.tasks.lookup import find_task
from mygym.tasks.rewards import potential
from mygym.training import env_factory, model_factory
from tests.components import TASKS, quickly, slow_except


def resolved(**overrides: Any) -> Any:
    return resolve_config(overrides={"strategy": "curriculum", **overrides}).config


@pytest.mark.parametrize("kind", ["forward", "backward"])
def test_every_task_has_easier_levels(kind: str) -> None:
    for task in [*TASKS, "AGMDW", "AGR"]:
        config = resolved(task=task, strategy_params={"levels": kind})
        levels = plan_of(config).variants
        assert len(levels) >= 2
        assert levels[-1].config == config
        assert len({level.label for level in levels}) == len(levels)


@pytest.mark.parametrize(
    ("task", "kind"),
    slow_except(
        [(task, kind) for task in ("reach", "AGM", "open_drawer", "set_table") for kind in ("forward", "backward")],
        {("AGM", "forward"), ("AGM", "backward"), ("open_drawer", "backward")}.__contains__,
    ),
)
def test_all_levels_have_equal_spaces(task: str, kind: str) -> None:
    config = resolved(task=task, algo="ppo", strategy_params={"levels": kind})
    env = env_factory.make_vec_env(config.model_copy(update={"n_envs": 1}))  # refuses different spaces
    env.close()


def test_hindsight_excludes_staged_rewards() -> None:
    """Staged rewards do not depend on goals only, so they cannot be relabelled."""
    levels = {"levels": [{"reward": "staged"}]}
    assert resolved(task="AGM", algo="sac", reward="sparse", strategy_params={"levels": [{"reward": "dense"}]}).her
    assert not resolved(task="AGM", algo="sac", reward="sparse", strategy_params=levels).her
    with pytest.raises(ConfigError, match=r"^her: True"):
        resolved(task="AGM", algo="sac", reward="sparse", her=True, strategy_params=levels)


def test_forward_levels() -> None:
    assert [level.label for level in plan_of(resolved(task="AGM", strategy_params={"levels": "forward"})).variants] == [
        "approach",
        "approach_grasp",
        "AGM",
    ]


def test_forward_levels_keep_changes_to_the_task() -> None:
    """The horizon is in proportion; objects and areas are those that a level uses."""
    changes = {"object": "cylinder", "rotation": [0, 0.5], "horizon": 200, "tolerance": 0.03, "distractors": ["apple"]}
    areas = {"cube_start": {"low": [-0.1, -0.1, 0.02], "high": [0.0, 0.1, 0.02]}}
    config = resolved(task="AGM", task_params={**changes, "areas": areas}, strategy_params={"levels": "forward"})
    params = [level.config.task_params for level in plan_of(config).variants]
    assert [p.horizon for p in params] == [67, 134, 200]
    assert {(p.tolerance, p.rotation) for p in params} == {(0.03, (0.0, 0.5))}
    assert [[d.object for d in p.distractors or ()] for p in params] == [["apple"]] * 3
    assert [set(p.areas) for p in params] == [set(), {"cube_start"}, {"cube_start"}]  # approach uses no object
    assert params[1].objects == {"cube": "cylinder"}
    env_factory.make_vec_env(config.model_copy(update={"n_envs": 1})).close()


def test_backward_levels() -> None:
    levels = plan_of(resolved(task="AGM", task_params={"horizon": 60}, strategy_params={"levels": "backward"})).variants
    stages_done = [level.config.task_params.stages_done for level in levels]
    assert stages_done == [2.0, 1.667, 1.333, 1.0, 0.667, 0.333, 0.0]
    assert [level.config.task_params.horizon for level in levels] == [20, 27, 34, 40, 47, 54, 60]


@pytest.mark.parametrize("task", quickly([*TASKS, "AGM", "AGMDW"], lambda task: find_task(task).stage_names))
def test_backward_levels_start_at_their_stage(task: str) -> None:
    """The potential at the start is at least `stages_done`, even with a short horizon."""
    levels = [level for level in plan_of(resolved(task=task)).variants if level.config.task_params.stages_done]
    for level in {levels[0].label: levels[0], levels[-1].label: levels[-1]}.values() if levels else ():
        with contextlib.closing(RobotEnv.of(env_spec(level.config))) as env:
            stages_done = level.config.task_params.stages_done
            assert stages_done is not None
            for seed in range(2):
                _, info = env.reset(seed=seed)
                assert stages_done <= len(env.task.stage_names) + float(potential(env._episodes.context)[0])
                assert info["stage"] >= int(stages_done)


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
    env = env_factory.make_vec_env(config)
    model = model_factory.build_model(config, env)
    model.set_logger(Logger(None, []))
    (strategy,) = prepared(config, env, model)
    assert isinstance(strategy, Curriculum)
    yield strategy
    env.close()


def shares(strategy: Curriculum) -> list[float]:
    weights = strategy.training_env.get_attr("_weights")
    assert all(np.array_equal(row, weights[0]) for row in weights)
    return [round(float(weight), 6) for weight in weights[0]]


def outcomes(strategy: Curriculum, *successes: bool, variant: int | None = None) -> None:
    for success in successes:
        strategy.on_episode(strategy.level if variant is None else variant, success, 0.0)
    strategy.begin_iteration()


def test_levels_follow_success_rates(curriculum: Curriculum) -> None:
    assert shares(curriculum) == [1.0, 0.0, 0.0]
    outcomes(curriculum, True, True, True)
    assert curriculum.level == 0  # fewer episodes than the window
    outcomes(curriculum, False)
    assert (curriculum.level, shares(curriculum)) == (1, [0.2, 0.8, 0.0])
    outcomes(curriculum, True, True, True, True, variant=0)
    outcomes(curriculum, True, True, True, True, variant=2)
    assert curriculum.level == 1  # episodes of other levels do not count
    outcomes(curriculum, True, False, True, False)
    assert curriculum.level == 1  # a success rate below advance_at is not enough
    outcomes(curriculum, True, True, True, True)
    assert (curriculum.level, shares(curriculum)) == (2, [0.1, 0.1, 0.8])
    outcomes(curriculum, True, True, True, True)
    assert curriculum.level == 2  # the last
    outcomes(curriculum, False, False, False, False)
    assert curriculum.level == 2  # failures of the current level do not go back
    outcomes(curriculum, False, False, True, variant=0)
    assert curriculum.level == 2
    outcomes(curriculum, False, variant=1)
    assert curriculum.level == 2  # a success rate of go_back_at is enough
    outcomes(curriculum, False, False, False, variant=1)
    assert curriculum.level == 1  # earlier levels are forgotten
    assert (curriculum.outcomes, curriculum.rehearsed) == ([], [])


def test_results_have_the_level(tmp_path: Path) -> None:
    """Patience advances to the last level; goals of 20 cm leave few unsolved starts."""
    params = {"levels": [{"task_params": {"tolerance": 0.2}}], "patience": 40}
    overrides = {"strategy": "curriculum", "strategy_params": params, "algo": "sac", "steps": 120, "n_envs": 1}
    overrides |= {"eval": {"every": 30, "episodes": 1, "final_episodes": 1}, "video": {"episodes": 0}}
    result = mygym.train({**overrides, "logdir": str(tmp_path)})
    assert result.strategy == {"curriculum": {"level": 1, "last_level": 1}}
    assert [record["strategy"]["curriculum"]["level"] for record in result.evaluations] == [0, 0, 1, 1, 1]
    written = json.loads((result.path / "result.json").read_text())
    assert (written["strategy"], written["evaluations"]) == (result.strategy, result.evaluations)
    logged = [json.loads(line) for line in (result.path / "progress.jsonl").read_text().splitlines()]
    assert {line["strategy/level"] for line in logged if "strategy/level" in line} == {0, 1}


@pytest.mark.parametrize("curriculum", [{"patience": 100}], indirect=True)
def test_patience_advances_and_never_goes_back(curriculum: Curriculum) -> None:
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
def test_invalid_parameters_are_refused(params: dict[str, Any], key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=key):
        mygym.train({"strategy": "curriculum", "strategy_params": params, "logdir": str(tmp_path)})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("algo", "params", "steps", "least"),
    [
        ("sac", {}, 80, 6 * 30),
        ("sac", {"patience": 10}, 60, 6 * 10),
        pytest.param("ppo", {}, 6 * 1024, 6 * 1024, marks=pytest.mark.slow),
        ("ppo", {"patience": 10}, 6 * 1024, 6 * 1024),  # a level for each rollout
    ],
)
def test_too_few_steps_for_the_levels_are_refused(
    algo: str, params: dict[str, Any], steps: int, least: int, tmp_path: Path
) -> None:
    rollouts = {"algo_params": {"n_steps": 128}, "n_envs": 8} if algo == "ppo" else {}
    overrides = {"strategy": "curriculum", "strategy_params": params, "task": "AGM", "algo": algo, "steps": steps}
    with pytest.raises(ConfigError, match=rf"steps: {steps} .* {least};"):
        mygym.train({**overrides, **rollouts, "logdir": str(tmp_path)})
    assert not list(tmp_path.iterdir())
