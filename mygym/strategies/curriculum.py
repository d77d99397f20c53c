"""Easier tasks first: levels of difficulty, climbed as success is measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from mygym.errors import ConfigError, bad_value
from mygym.strategies.strategy import Strategy
from mygym.tasks.lookup import find_task
from mygym.tasks.subtask import SubTask
from mygym.tasks.task import Task
from mygym.tasks.task_params import change_task

if TYPE_CHECKING:
    from mygym.config import RunConfig


PARTS = 3
"""Of each stage, by which `backward` levels grow: between the first touch of an object and a firm grasp there is much
to be found out."""


class Curriculum(Strategy):
    """Easier tasks first, the run's own last; a level is climbed when enough of the latest episodes succeed.

    Weights, optimiser and replay buffer are carried over. Training episodes count, exploration included; evaluations
    are of the run's own task from the beginning.

    Args:
        levels: Parts of a config, from easy to hard, each laid over the run's: `{task: AG}`, or `{task_params:
            {tolerance: 0.1}}`, `{randomize: …}`, `{reward: dense}`. The run's own config follows them as the last.
            `backward`: its ends, each a third of a stage longer, before which the scripted expert does the rest
            (Florensa et al., 2017). `forward`: the beginnings of its stages (`A`, `AG`, `AGM`). Either is a wider goal
            where there is one stage.
        advance_at: Success rate at which to go on to the next level.
        go_back_at: Success rate in rehearsed episodes, if there are any, below which to go back to the level before.
        window: Episodes over which either is measured.
        patience: Env steps after which to go on all the same, and then never back; None: never.
        rehearsal: Share of episodes that play an earlier level, so that it is not forgotten.
    """

    kept = ("level", "outcomes", "rehearsed", "began")

    def __init__(
        self,
        *,
        levels: list[dict[str, Any]] | Literal["forward", "backward"] = "backward",
        advance_at: float = 0.5,
        go_back_at: float = 0.1,
        window: int = 30,
        patience: int | None = None,
        rehearsal: float = 0.2,
    ) -> None:
        self.levels, self.advance_at, self.go_back_at = levels, advance_at, go_back_at
        self.window, self.patience, self.rehearsal = window, patience, rehearsal
        self.level = self.last = 0
        """Index of the level that is trained, and of the last."""
        self.outcomes: list[bool] = []
        """Whether the latest episodes of the level were successes."""
        self.rehearsed: list[bool] = []
        """Whether those of earlier levels were, since the level began."""
        self.began = 0
        """Env steps at which the level began."""
        if levels == []:
            raise ConfigError(bad_value("strategy_params.levels", levels, "backward, forward, or parts of a config"))
        if not 0.0 < advance_at <= 1.0:
            raise ConfigError(bad_value("strategy_params.advance_at", advance_at, "above 0, up to 1"))
        if not 0.0 <= go_back_at < advance_at:
            raise ConfigError(bad_value("strategy_params.go_back_at", go_back_at, "0 or more, below advance_at"))
        if window < 1:
            raise ConfigError(bad_value("strategy_params.window", window, "1 or more"))
        if patience is not None and patience < 1:
            raise ConfigError(bad_value("strategy_params.patience", patience, "1 or more, or null"))
        if not 0.0 <= rehearsal < 1.0:
            raise ConfigError(bad_value("strategy_params.rehearsal", rehearsal, "0 or more, below 1"))

    def run_defaults(self) -> Mapping[str, Any]:
        """One network for all levels: spaces that do not depend on the task, where it changes."""
        return {"spaces": "shared"} if any("task" in part for part in self._parts(self.config)) else {}

    def settled(self) -> Mapping[str, Any]:
        """The levels."""
        return {"levels": [dict(part) for part in self._parts(self.config)]}

    def variants(self, config: RunConfig) -> Sequence[Mapping[str, Any]]:
        """The levels."""
        return (*self._parts(config), {})

    def requires(self) -> Sequence[str]:
        """More than one level."""
        return ("several_variants",)

    def prepare_env(self) -> None:
        """Play the first level."""
        self._check_time()
        self.last = len(self._parts(self.config))
        self._play()

    def on_episode(self, variant: int, success: bool, total_reward: float) -> None:
        """Count an episode of the level that is trained, or of those before."""
        if variant == self.level:
            self.outcomes = [*self.outcomes, success][-self.window :]
        elif variant < self.level:
            self.rehearsed = [*self.rehearsed, success][-self.window :]

    def step(self) -> None:
        """Change the level if it is time to."""
        rate = _rate(self.outcomes)
        waited = self.patience is not None and self.num_timesteps - self.began >= self.patience
        mastered = len(self.outcomes) == self.window and rate >= self.advance_at
        forgotten = len(self.rehearsed) == self.window and _rate(self.rehearsed) < self.go_back_at
        if self.level < self.last and (mastered or waited):
            self._change(self.level + 1)
        elif forgotten and self.patience is None:
            self._change(self.level - 1)
        self.logger.record("strategy/level", self.level)
        self.logger.record("strategy/success_rate", rate)

    def outcome(self) -> Mapping[str, Any]:
        """The level that is trained, and the last, from 0."""
        return {"level": self.level, "last_level": self.last}

    def _change(self, level: int) -> None:
        self.level, self.outcomes, self.rehearsed, self.began = level, [], [], self.num_timesteps
        self._play()

    def _play(self) -> None:
        levels = range(self.last + 1)
        weights = [self.rehearsal / self.level if index < self.level else 0.0 for index in levels]
        weights[self.level] = 1.0 - sum(weights)
        self.training_env.env_method("set_weights", weights)

    def _parts(self, config: RunConfig) -> Sequence[Mapping[str, Any]]:
        if not isinstance(self.levels, str):
            return tuple(self.levels)
        task = find_task(config.task)
        if len(task.stage_names) == 1:
            return ({"task_params": {"tolerance": 2 * (config.task_params.tolerance or task.tolerance)}},)
        return backward(task, config) if self.levels == "backward" else forward(task, config)

    def _check_time(self) -> None:
        """Refuse levels that cannot all be climbed within the run's steps.

        Raises:
            ConfigError: Even if every episode succeeded at once, or by `patience`, the last would not be reached.
        """
        from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm  # two seconds, and help needs none

        below, steps = len(self._parts(self.config)), self.config.steps
        rollout = self.model.n_steps * self.model.n_envs if isinstance(self.model, OnPolicyAlgorithm) else 1
        fastest = below * max(min(self.window, self.patience or self.window), rollout)
        if fastest >= steps:
            why = f"never reach the last of {below + 1} levels, of which each takes {fastest // below} at least"
            allowed = f"more than {fastest}; or fewer levels, a smaller window, shorter rollouts"
            raise ConfigError(bad_value("steps", steps, allowed, why))


def _rate(outcomes: Sequence[bool]) -> float:
    return sum(outcomes) / max(len(outcomes), 1)


def backward(task: Task, config: RunConfig) -> Sequence[Mapping[str, Any]]:
    """The ends of a task, from the last stage on, each a third of a stage longer, and given as much more time."""
    horizon, hold = config.task_params.horizon or task.horizon, config.task_params.hold or task.hold
    count = PARTS * len(task.stage_names)
    return tuple(
        {
            "task_params": {
                "stages_done": round((count - left) / PARTS, 3),
                "horizon": max(math.ceil(horizon * left / count), hold + 1),
            }
        }
        for left in range(PARTS, count)
    )


def forward(task: Task, config: RunConfig) -> Sequence[Mapping[str, Any]]:
    """The beginnings of a task of several stages, with what `config` has changed of its numbers."""
    begun: list[list[dict[str, Any]]] = []
    for number, one in enumerate(task.subtasks):
        before = [_plainly(other) for other in task.subtasks[:number]]
        names = [stage.name for stage in task.composed[number]]
        what = {key: value for key, value in _plainly(one).items() if key in ("object", "part")}
        begun += [[*before, {**what, "stages": names[:end]}] for end in range(1, len(names))]
        if number < len(task.subtasks) - 1:
            begun.append([*before, _plainly(one)])
    return tuple({"task": said, "task_params": _numbers(task, find_task(said), config)} for said in begun)


def _plainly(one: SubTask) -> dict[str, Any]:
    """A sub-task as a config says it."""
    said = {key: value for key, value in asdict(one).items() if value != getattr(SubTask, key, None)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in said.items()}


def _numbers(task: Task, begun: Task, config: RunConfig) -> dict[str, Any]:
    """`task_params` of what is begun of `task`: the objects that play its roles, and what the config has changed."""
    own = config.task_params.model_dump(mode="json", exclude_none=True)
    areas = own.pop("areas")
    asked = change_task(task, own)
    keys = ("tolerance", "hold", "distractors", "rotation")
    changed: dict[str, Any] = {key: own[key] for key in keys if getattr(asked, key) != getattr(task, key)}
    if asked.horizon != task.horizon:
        share = len(begun.stage_names) / len(task.stage_names)
        changed["horizon"] = max(math.ceil(asked.horizon * share), asked.hold + 1)
    elsewhere = _areas(task) - _areas(begun)
    by_role = {
        "objects": {role: name for role in begun.roles if (name := asked.asset(role)) != role},
        "colors": {role: color for role, color in own["colors"].items() if role in begun.roles},
        "areas": {name: area for name, area in areas.items() if name not in elsewhere},
    }
    return {**changed, **{key: said for key, said in by_role.items() if said}}


def _areas(task: Task) -> set[str]:
    """Names of those that goals and objects are drawn from."""
    goals = {name for number in range(len(task.subtasks)) for name in task.goal_areas(number)}
    return goals | {f"{role}_start" for role in task.roles}
