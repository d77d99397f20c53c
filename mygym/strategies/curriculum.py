"""Strategy `curriculum`: levels of increasing difficulty; the success rate decides when the level changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from mygym.errors import ConfigError, bad_value
from mygym.strategies.strategy import Strategy
from mygym.tasks.lookup import find_task
from mygym.tasks.stage import SubTask
from mygym.tasks.task import Task, change_task

if TYPE_CHECKING:
    from mygym.config import RunConfig

LEVELS_PER_STAGE = 3
"""Levels of `backward` per stage: a whole stage is too large a step between first contact and a firm grasp."""


def backward(task: Task, config: RunConfig) -> Sequence[Mapping[str, Any]]:
    """Return the end segments of a task, each longer by a third of a stage, with a proportional horizon."""
    horizon, hold = config.task_params.horizon or task.horizon, config.task_params.hold or task.hold
    count = LEVELS_PER_STAGE * len(task.stage_names)
    return tuple(
        {
            "task_params": {
                "stages_done": round((count - left) / LEVELS_PER_STAGE, 3),
                "horizon": max(math.ceil(horizon * left / count), hold + 1),
            }
        }
        for left in range(LEVELS_PER_STAGE, count)
    )


def forward(task: Task, config: RunConfig) -> Sequence[Mapping[str, Any]]:
    """Return the initial segments of a task with several stages, with the changes that `config` makes to the task."""
    beginnings: list[list[dict[str, Any]]] = []
    for number, subtask in enumerate(task.subtasks):
        before = [_plain(earlier) for earlier in task.subtasks[:number]]
        names = [stage.name for stage in task.composed[number]]
        subject = {key: value for key, value in _plain(subtask).items() if key in ("object", "part")}
        beginnings += [[*before, {**subject, "stages": names[:end]}] for end in range(1, len(names))]
        if number < len(task.subtasks) - 1:
            beginnings.append([*before, _plain(subtask)])
    return tuple(
        {"task": beginning, "task_params": _task_params(task, find_task(beginning), config)} for beginning in beginnings
    )


def _plain(subtask: SubTask) -> dict[str, Any]:
    """Return a sub-task as plain config data, without defaults."""
    values = {key: value for key, value in asdict(subtask).items() if value != getattr(SubTask, key, None)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _task_params(task: Task, beginning: Task, config: RunConfig) -> dict[str, Any]:
    """Return `task_params` of an initial segment of `task`: the objects of its roles, and the config's changes."""
    params = config.task_params.model_dump(mode="json", exclude_none=True)
    areas = params.pop("areas")
    changed = change_task(task, params)
    keys = ("tolerance", "hold", "distractors", "rotation")
    values: dict[str, Any] = {key: params[key] for key in keys if getattr(changed, key) != getattr(task, key)}
    if changed.horizon != task.horizon:
        share = len(beginning.stage_names) / len(task.stage_names)
        values["horizon"] = max(math.ceil(changed.horizon * share), changed.hold + 1)
    unused_areas = _areas(task) - _areas(beginning)
    by_role = {
        "objects": {role: _names(changed, role) for role in beginning.roles if changed.assets(role) != (role,)},
        "colors": {role: color for role, color in params["colors"].items() if role in beginning.roles},
        "areas": {name: area for name, area in areas.items() if name not in unused_areas},
    }
    return {**values, **{key: mapping for key, mapping in by_role.items() if mapping}}


def _names(task: Task, role: str) -> str | list[str]:
    """Return the object of a role, or the objects to draw from, as plain config data."""
    names = list(task.assets(role))
    return names if len(names) > 1 else names[0]


def _areas(task: Task) -> set[str]:
    """Return the names of the areas from which goals and objects are drawn."""
    goals = {name for number in range(len(task.subtasks)) for name in task.goal_areas(number)}
    return goals | {f"{role}_start" for role in task.roles}


class Curriculum(Strategy):
    """Easier tasks first; the level advances when enough recent episodes succeed.

    Weights, optimiser and replay buffer are kept between levels. Success rates are measured on training episodes,
    exploration included; evaluations always use the run's task.

    Args:
        levels: Partial configs, from easy to hard, each overriding the run's: `{task: AG}`, `{task_params:
            {tolerance: 0.1}}`, `{randomize: …}` or `{reward: dense}`. The run's config is the last level. `backward`:
            end segments of the task, each a third of a stage longer; the scripted expert plays the beginning (Florensa
            et al., 2017). `forward`: initial segments of the task (`A`, `AG`, `AGM`). For one-stage tasks both mean
            a wider goal.
        advance_at: Success rate at which the next level begins.
        go_back_at: Success rate of rehearsed episodes below which the previous level returns.
        window: Number of episodes over which both rates are measured.
        patience: Env steps after which the next level begins regardless; levels then never go back. null: never.
        rehearsal: Share of episodes on earlier levels, against forgetting.
    """

    checkpointed = ("level", "outcomes", "rehearsed", "level_start")

    def __init__(
        self,
        *,
        levels: list[dict[str, Any]] | Literal["forward", "backward"] = "backward",
        advance_at: Annotated[float, Gt(0), Le(1)] = 0.5,
        go_back_at: Annotated[float, Ge(0)] = 0.1,
        window: Annotated[int, Ge(1)] = 30,
        patience: Annotated[int, Ge(1)] | None = None,
        rehearsal: Annotated[float, Ge(0), Lt(1)] = 0.2,
    ) -> None:
        self.levels, self.advance_at, self.go_back_at = levels, advance_at, go_back_at
        self.window, self.patience, self.rehearsal = window, patience, rehearsal
        self.level = self.last = 0
        """Indices of the current and of the last level."""
        self.outcomes: list[bool] = []
        """Success of the latest episodes of the current level."""
        self.rehearsed: list[bool] = []
        """Success of the latest episodes of earlier levels, since the current level began."""
        self.level_start = 0
        """Env steps at the start of the current level."""
        if levels == []:
            raise ConfigError(
                bad_value("strategy_params.levels", levels, "backward, forward, or a list of partial configs")
            )
        if go_back_at >= advance_at:
            raise ConfigError(bad_value("strategy_params.go_back_at", go_back_at, "0 or more, below advance_at"))

    def run_defaults(self) -> Mapping[str, Any]:
        """Return shared spaces if the task changes: one network serves all levels."""
        return {"spaces": "shared"} if any("task" in level for level in self._easier_levels(self.config)) else {}

    def complete_params(self) -> Mapping[str, Any]:
        """Return the levels as partial configs."""
        return {"levels": [dict(level) for level in self._easier_levels(self.config)]}

    def variants(self, config: RunConfig) -> Sequence[Mapping[str, Any]]:
        """Return the levels, the run's config last."""
        return (*self._easier_levels(config), {})

    def requires(self) -> Sequence[str]:
        """Require more than one level."""
        return ("several_variants",)

    def prepare_env(self) -> None:
        """Start with the first level."""
        self._check_steps()
        self.last = len(self._easier_levels(self.config))
        self._set_weights()

    def on_episode(self, variant: int, success: bool, total_reward: float) -> None:
        """Record the success of an episode of the current level or of an earlier level."""
        if variant == self.level:
            self.outcomes = [*self.outcomes, success][-self.window :]
        elif variant < self.level:
            self.rehearsed = [*self.rehearsed, success][-self.window :]

    def begin_iteration(self) -> None:
        """Change the level if the success rates are above or below their limits."""
        rate = _success_rate(self.outcomes)
        is_overdue = self.patience is not None and self.num_timesteps - self.level_start >= self.patience
        is_mastered = len(self.outcomes) == self.window and rate >= self.advance_at
        is_forgotten = len(self.rehearsed) == self.window and _success_rate(self.rehearsed) < self.go_back_at
        if self.level < self.last and (is_mastered or is_overdue):
            self._change_level(self.level + 1)
        elif is_forgotten and self.patience is None:
            self._change_level(self.level - 1)
        self.logger.record("strategy/level", self.level)
        self.logger.record("strategy/success_rate", rate)

    def outcome(self) -> Mapping[str, Any]:
        """Return the indices of the current and of the last level, counted from 0."""
        return {"level": self.level, "last_level": self.last}

    def _change_level(self, level: int) -> None:
        self.level, self.outcomes, self.rehearsed, self.level_start = level, [], [], self.num_timesteps
        self._set_weights()

    def _set_weights(self) -> None:
        levels = range(self.last + 1)
        weights = [self.rehearsal / self.level if index < self.level else 0.0 for index in levels]
        weights[self.level] = 1.0 - sum(weights)
        self.training_env.env_method("set_weights", weights)

    def _easier_levels(self, config: RunConfig) -> Sequence[Mapping[str, Any]]:
        """Return all levels except the last."""
        if not isinstance(self.levels, str):
            return tuple(self.levels)
        task = find_task(config.task)
        if len(task.stage_names) == 1:
            return ({"task_params": {"tolerance": 2 * (config.task_params.tolerance or task.tolerance)}},)
        return backward(task, config) if self.levels == "backward" else forward(task, config)

    def _check_steps(self) -> None:
        """Check that the run is long enough to reach the last level."""
        from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm  # two seconds to import

        below, steps = len(self._easier_levels(self.config)), self.config.steps
        rollout = self.model.n_steps * self.model.n_envs if isinstance(self.model, OnPolicyAlgorithm) else 1
        fastest = below * max(min(self.window, self.patience or self.window), rollout)
        if fastest >= steps:
            why = f"cannot reach the last of {below + 1} levels, because each takes at least {fastest // below} steps"
            allowed = f"more than {fastest}; or fewer levels, a smaller window, shorter rollouts"
            raise ConfigError(bad_value("steps", steps, allowed, why))


def _success_rate(outcomes: Sequence[bool]) -> float:
    return sum(outcomes) / max(len(outcomes), 1)
