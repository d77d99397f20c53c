"""Two learners in one run: the first chooses goals that the second misses, the second learns to reach them."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, GymEnv, ReplayBufferSamples
from stable_baselines3.common.utils import polyak_update
from stable_baselines3.dqn.policies import DQNPolicy, MlpPolicy, MultiInputPolicy
from torch.nn import functional

from mygym.algos.ddqn import double_q_targets
from mygym.registry import register_algorithm
from mygym.training.device_replay import Samples
from mygym.training.runner import Curves, Loop, Runner

Columns = dict[str, NDArray[Any]]
"""Arrays by name, with a row for each transition."""


class Memory:
    """Ring buffer of transitions; a checkpoint holds it.

    Args:
        size: Number of transitions.
    """

    def __init__(self, size: int) -> None:
        self.size, self.added = size, 0
        self.columns: Columns = {}

    def add(self, rows: Columns) -> None:
        """Append rows; the oldest rows are overwritten."""
        if not self.columns:
            self.columns = {name: np.zeros((self.size, *of.shape[1:]), of.dtype) for name, of in rows.items()}
        count = len(next(iter(rows.values())))
        indices = (self.added + np.arange(count)) % self.size
        for name, column in self.columns.items():
            column[indices] = rows[name]
        self.added += count

    def sample(self, count: int) -> dict[str, torch.Tensor]:
        """Return random rows, `(count, …)`."""
        rows = np.random.randint(min(self.added, self.size), size=count)  # noqa: NPY002  (checkpoints hold this generator)
        return {name: torch.as_tensor(column[rows]) for name, column in self.columns.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the rows, and the number of rows added so far."""
        filled = min(self.added, self.size)
        return {"added": self.added, "columns": {name: column[:filled] for name, column in self.columns.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.added, self.columns = 0, {}
        if state["columns"]:
            self.add(state["columns"])
        self.added = state["added"]


@register_algorithm(
    "two_players",
    policy="MultiInputPolicy",
    defaults={"epsilon": {"schedule": "inverse", "from": 1.0, "to": 0.05}, "policy_kwargs": {"net_arch": [64, 64]}},
    run_defaults={
        "n_envs": 8,
        "reward": "dense",
        "steps": 40_000,
        "eval": {"every": 2_000, "episodes": 25},
        "actions": {"discrete": 3, "combined": True},
    },
    requires=("goal_observations", "discrete_actions"),
)
class TwoPlayers(Runner):
    """Double Q-learning of two players: one chooses a goal for each episode, the other reaches it.

    Both players have networks, optimisers and buffers of their own. The reacher is the policy of the run. It gets the
    reward of the run for the chosen goal; the chooser gets 1 if an episode ends away from its goal, else 0, so it
    learns to choose goals that the reacher misses. The goals replace those of the environments, whose own goals count
    in evaluations and in `monitor.csv`.

    Args:
        learning_rate: Learning rate of both optimisers.
        cells: Number of cells along each axis of the goal area; the chooser chooses a cell, chance a goal within it.
        gamma: Discount factor of the reacher.
        tau: Share of the online network in each update of the target network.
        epsilon: Probability of a random action of the reacher.
        chooser_epsilon: Probability of a random goal.
        batch_size: Transitions in a minibatch.
        gradient_steps: Gradient steps of the reacher after each step of the environments.
        memory_size: Transitions in the memory of each player.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"MultiInputPolicy": MultiInputPolicy}
    policy: DQNPolicy

    def __init__(
        self,
        policy: str | type[DQNPolicy],
        env: GymEnv | str | None,
        learning_rate: float = 2e-3,
        cells: int = 3,
        gamma: float = 0.95,
        tau: float = 0.05,
        epsilon: float = 0.1,
        chooser_epsilon: float = 0.2,
        batch_size: int = 256,
        gradient_steps: int = 4,
        memory_size: int = 40_000,
        **kwargs: Any,
    ) -> None:
        self.cells, self.gamma, self.tau = cells, gamma, tau
        self.epsilon, self.chooser_epsilon = epsilon, chooser_epsilon
        self.batch_size, self.gradient_steps, self.memory_size = batch_size, gradient_steps, memory_size
        self.memory, self.chooser_memory = Memory(memory_size), Memory(memory_size)
        self.area = np.zeros((2, 3))
        """m: lowest and highest corner of the goal area."""
        super().__init__(policy, env, learning_rate, **kwargs)
        if self.env is not None:
            if self.get_vec_normalize_env() is not None:
                raise ValueError("normalize must be false: the goals that it chooses are in metres")
            task, areas = (self.env.get_attr(name)[0] for name in ("task", "areas"))
            if task.roles:
                raise ValueError(f"the task must move the end effector alone, as reach does; {task.name} has objects")
            self.area = np.stack(areas[task.goal_areas(len(task.subtasks) - 1)[0]])

    def setup(self) -> None:
        """Build the chooser: a network over the observation at the start of an episode, with a value of each cell."""
        assert isinstance(self.observation_space, spaces.Dict)
        start, cells = self.observation_space["observation"], spaces.Discrete(self.cells**3)
        assert start.shape is not None
        self.chooser = MlpPolicy(start, cells, self.lr_schedule, **self.policy_kwargs).to(self.device)
        self.goals = np.zeros((self.n_envs, 3), np.float32)
        self.chosen = np.zeros((self.n_envs, 1), np.int64)
        self.starts = np.zeros((self.n_envs, *start.shape), np.float32)

    def training(self, loop: Loop) -> Curves:
        """Alternate a step of all environments and updates of both players.

        Args:
            loop: Training environments, logging and budget of the run.
        """
        while loop.next_iteration():
            self._choose(loop.observations["observation"], loop.episode_starts)
            self._step(loop)
            if self.memory.added >= self.batch_size:
                for _ in range(self.gradient_steps):
                    self._learn(self.policy, _of_reacher(self.memory.sample(self.batch_size)))
            if self.chooser_memory.added >= self.batch_size:
                self._learn(self.chooser, _of_chooser(self.chooser_memory.sample(self.batch_size)))
        return loop.curves()

    def _choose(self, observations: NDArray[np.float32], begins: NDArray[np.bool_]) -> None:
        """Choose goals for the environments in which an episode begins."""
        if not begins.any():
            return
        self.starts[begins] = observations[begins]
        self.chosen[begins, 0] = _act(self.chooser, observations[begins], self.chooser_epsilon)
        cells = np.stack(np.unravel_index(self.chosen[begins, 0], (self.cells,) * 3), axis=1)
        low, high = self.area
        share = (cells + np.random.random_sample(cells.shape)) / self.cells  # noqa: NPY002  (checkpoints hold it)
        self.goals[begins] = low + share * (high - low)

    def _step(self, loop: Loop) -> None:
        """Step all environments, and store the transitions of both players."""
        before = {**loop.observations, "desired_goal": self.goals.copy()}
        actions = _act(self.policy, before, self.epsilon)
        step = loop.rollout(1, lambda _: actions).flat()
        after, dones = step.next_observations, step.terminated | step.truncated
        arguments = after["achieved_goal"], self.goals, step.infos
        rewards = loop.envs.env_method("compute_reward", *arguments, indices=[0])[0]
        reached = loop.envs.env_method("compute_terminated", *arguments, indices=[0])[0]
        self.memory.add(
            {
                "observation": before["observation"],
                "next_observation": after["observation"],
                "achieved_goal": before["achieved_goal"],
                "next_achieved_goal": after["achieved_goal"],
                "desired_goal": before["desired_goal"],
                "action": actions[:, None],
                "reward": rewards[:, None].astype(np.float32),
            }
        )
        if dones.any():
            misses = 1.0 - reached[dones, None].astype(np.float32)
            self.chooser_memory.add({"start": self.starts[dones], "choice": self.chosen[dones], "reward": misses})
            loop.record("reached", float(1.0 - misses.mean()))

    def _learn(self, player: DQNPolicy, batch: Samples) -> None:
        """Take a gradient step of a player, and move its target network."""
        player.set_training_mode(True)
        targets = double_q_targets(player.q_net, player.q_net_target, batch, self.gamma)
        loss = functional.smooth_l1_loss(player.q_net(batch.observations).gather(1, batch.actions), targets)
        for group in player.optimizer.param_groups:
            group["lr"] = self.learning_rate
        player.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        player.optimizer.step()
        polyak_update(player.q_net.parameters(), player.q_net_target.parameters(), self.tau)
        player.set_training_mode(False)

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return ["policy", "policy.optimizer", "chooser", "chooser.optimizer"], []

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "chooser", "memory", "chooser_memory"]


def _act(player: DQNPolicy, observations: Any, epsilon: float) -> NDArray[np.int64]:
    """Return the best action of a player for each observation, or a random action with probability `epsilon`."""
    assert isinstance(player.action_space, spaces.Discrete)
    actions, _ = player.predict(observations, deterministic=True)
    random = np.random.random_sample(len(actions)) < epsilon  # noqa: NPY002  (checkpoints hold this generator)
    actions[random] = np.random.randint(player.action_space.n, size=random.sum())  # noqa: NPY002
    return actions


def _of_reacher(rows: dict[str, torch.Tensor]) -> DictReplayBufferSamples:
    goals = rows["desired_goal"]
    before = {"achieved_goal": rows["achieved_goal"], "observation": rows["observation"], "desired_goal": goals}
    after = {
        "achieved_goal": rows["next_achieved_goal"],
        "observation": rows["next_observation"],
        "desired_goal": goals,
    }
    never = torch.zeros_like(rows["reward"])  # an episode ends by its horizon, which the reacher does not observe
    return DictReplayBufferSamples(before, rows["action"], after, never, rows["reward"])


def _of_chooser(rows: dict[str, torch.Tensor]) -> ReplayBufferSamples:
    always = torch.ones_like(rows["reward"])  # a choice has no successor
    return ReplayBufferSamples(rows["start"], rows["choice"], rows["start"], always, rows["reward"])
