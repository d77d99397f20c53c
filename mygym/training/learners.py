"""Several processes that train the same model, each with a share of the environments (config key `learners`).

Before each step of an optimiser, the processes exchange their gradients, and each takes the step with the mean; a model
of JAX, whose update is a few compiled calls, trains in the main process with the rollouts of all. The main process
decides all else: it evaluates, writes checkpoints, and begins each rollout.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback

from mygym.config.schedules import may_be_scheduled
from mygym.errors import RunError
from mygym.planning.checks import gathers_rollouts
from mygym.planning.plan import RunPlan
from mygym.registry import user_files
from mygym.registry.user_files import user_modules
from mygym.training import hosts
from mygym.training.checkpoints.states import (
    env_state,
    load_env_state,
    load_model_state,
    load_normalizer_state,
    load_random_state,
    model_state,
    random_state,
)
from mygym.training.env_processes import death_of, end_processes, kill, picklable_error, starting_processes
from mygym.training.policy import load_weights, normalizer_of, optimizers_of, weights
from mygym.training.run_callbacks import RolloutCallback
from mygym.training.schedule_callback import set_value
from mygym.training.stop_request import ignore_signals
from mygym.training.vec_wrappers import observation_normalizer


def train_share(
    values: Mapping[str, Any],
    index: int,
    resumed: bool,
    excluded: frozenset[Path],
    commands: Connection,
    exchanges: Connection,
) -> None:
    """Train until the main process ends the training; then answer its commands until it closes the pipe.

    Args:
        values: The complete config.
        index: Number of the process; the main process is 0.
        resumed: Whether the run continues from a checkpoint.
        excluded: Folders from which no user's module is imported.
        commands: Commands of the main process, and answers.
        exchanges: Gradients of this process, and their means of all processes; or rollouts of this process.
    """
    ignore_signals()
    user_modules.excluded = excluded
    with contextlib.suppress(EOFError, OSError), commands:
        try:
            user_files.import_modules(values["imports"])
            _train(values, index, resumed, commands, exchanges)
        except (EOFError, ConnectionError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001  (the main process raises it)
            name = f"learner {index + 1} of {values['learners']}"
            commands.send_bytes(pickle.dumps(("error", picklable_error(error, name))))


def _train(values: Mapping[str, Any], index: int, resumed: bool, commands: Connection, exchanges: Connection) -> None:
    """Build environments and model, train, and answer commands."""
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.utils import set_random_seed

    from mygym.planning.plan import plan_from_python
    from mygym.training.env_factory import make_vec_env
    from mygym.training.evaluation import TRAINING, episode_seeds
    from mygym.training.model_factory import build_model, schedules_of
    from mygym.training.pretrained import load_pretrained
    from mygym.training.schedule_callback import ScheduleCallback

    plan = plan_from_python(values)
    config = plan.config
    env = make_vec_env(plan)
    with contextlib.closing(env):
        model = build_model(plan, env)
        load_pretrained(plan, model, env, resumed)
        seed = int(np.random.SeedSequence([config.seed, index]).generate_state(1)[0])  # of exploration
        set_random_seed(seed)
        set_noise_seed(model, seed)
        model.action_space.seed(seed)
        env.seed(episode_seeds(config.seed, TRAINING, 1)[0] + index * env.num_envs)
        model.set_logger(Logger(None, []))
        train_jointly(model, partial(_mean_of_processes, exchanges), partial(_send_rollout, exchanges))
        answers = AnswerCallback(commands)
        schedules = ScheduleCallback(schedules_of(plan), config.steps)
        with contextlib.suppress(LearningEnded):
            model.learn(config.steps, callback=[StepCountCallback(config.learners), schedules, answers])
        answers.answer_commands()


class LearningEnded(Exception):  # noqa: N818  (no error)
    """Raised when the main process has ended the training, perhaps in the middle of a rollout."""


def _send_rollout(pipe: Connection, rollout: Mapping[str, NDArray[Any]]) -> None:
    """Send a rollout to the main process, which trains; raise `LearningEnded` if it has ended the training."""
    try:
        pipe.send_bytes(pickle.dumps(rollout, pickle.HIGHEST_PROTOCOL))
    except OSError:
        raise LearningEnded from None


def _mean_of_processes(pipe: Connection, gradients: NDArray[Any]) -> NDArray[Any]:
    """Return the mean of the gradients `(n,)` of all processes from the main process; errors as `_send_rollout`."""
    try:
        pipe.send_bytes(gradients.data)
        return np.frombuffer(bytearray(pipe.recv_bytes()), dtype=gradients.dtype)
    except (EOFError, OSError):
        raise LearningEnded from None


class AnswerCallback(RolloutCallback):
    """Answers the commands of the main process at each rollout start, until it begins the rollout."""

    def __init__(self, commands: Connection) -> None:
        super().__init__()
        self.commands = commands

    def _on_rollout_start(self) -> None:
        self.answer_commands()

    def answer_commands(self) -> None:
        """Answer commands until the next rollout begins; raise `EOFError` if the main process has closed the pipe."""
        self._send("ready")
        while True:
            command, data = pickle.loads(self.commands.recv_bytes())  # noqa: S301  (from the main process)
            if command == "rollout":
                self.synchronize(**data)
                return
            if command == "load":
                self._load_state(data)
            self._send(command, self._state() if command == "state" else None)

    def _send(self, kind: str, answer: Any = None) -> None:
        self.commands.send_bytes(pickle.dumps((kind, answer), pickle.HIGHEST_PROTOCOL))

    def synchronize(
        self, steps: int, values: Mapping[str, float], weights: Mapping[str, Any], normalizer: Mapping[str, Any] | None
    ) -> None:
        """Set env steps, hyperparameters, weights and normaliser to those of the main process."""
        self.model.num_timesteps = steps
        for name, value in values.items():
            set_value(self.model, name, value)
        load_weights(self.model, {name: torch.from_numpy(array) for name, array in weights.items()})
        wrapper = observation_normalizer(self.training_env)
        if wrapper is not None and normalizer is not None:
            load_normalizer_state(wrapper, normalizer)

    def _state(self) -> dict[str, Any]:
        return {"algorithm": model_state(self.model), "env": env_state(self.training_env), "random": random_state()}

    def _load_state(self, state: Mapping[str, Any]) -> None:
        load_model_state(self.model, state["algorithm"])
        load_env_state(self.training_env, state["env"])
        load_random_state(state["random"])


Exchange = Callable[[NDArray[Any]], NDArray[Any]]
"""Function that sends the gradients of this process, `(n,)`, and returns the mean of those of all processes."""


def average_gradients(model: Any, exchange: Exchange) -> None:
    """Let the optimisers of an SB3 model take each step with the mean gradients that `exchange` returns.

    SB3 has clipped the gradients of each process before.
    """
    for optimizer in optimizers_of(model):
        optimizer.register_step_pre_hook(partial(_set_mean, exchange))


def _set_mean(exchange: Exchange, optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Replace the gradients of an optimiser's parameters by their means."""
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    mean = torch.from_numpy(exchange(flat.cpu().numpy()))
    for gradient, part in zip(gradients, torch.split(mean, [each.numel() for each in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


Rollout = dict[str, NDArray[Any]]
"""Observations, actions, advantages, returns and log-probabilities of the actions by name, each `(n, …)`."""

GatherRollouts = Callable[[Rollout], Rollout | None]
"""Function of the rollout of a process. In the main process, it returns the rollouts of all processes as a single
rollout; in the other processes, it sends the rollout to the main process and returns None."""


def train_jointly(model: Any, exchange: Exchange, gather_rollouts: GatherRollouts) -> None:
    """Let a model train together with the models of the other processes: by their rollouts, or by their gradients."""
    if gathers_rollouts(type(model)):
        model.gather_rollouts = gather_rollouts
    else:
        average_gradients(model, exchange)


def set_noise_seed(model: Any, seed: int) -> None:
    """Set the seed of the exploration noise of a model in JAX; PyTorch has a seed for all."""
    if gathers_rollouts(type(model)):
        import jax

        model.policy.key = jax.random.PRNGKey(seed)


class StepCountCallback(BaseCallback):
    """Adds the env steps of the other processes to those of this process; it must be the first callback."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def _on_step(self) -> bool:
        self.model.num_timesteps += (self.count - 1) * self.training_env.num_envs
        return True


PATIENCE = 600.0
"""Time limit for a message of a process, s: its rollouts may take minutes, and its start on a busy machine as well."""


class OtherLearners:
    """The other processes; they start at once, and build environments and model at the same time as this process.

    Its methods raise `MygymError` if a process has failed.

    Raises:
        ConfigError: The main script starts the processes without `if __name__ == "__main__":`.
    """

    def __init__(self, plan: RunPlan, resumed: bool = False) -> None:
        self.count = plan.config.learners
        self._processes: list[_Process] = []
        arguments = [(plan.resolved.values(), index, resumed, user_modules.excluded) for index in range(1, self.count)]
        try:
            if hosts.size() is None:
                with starting_processes():
                    for each in arguments:
                        self._processes.append(_Process.started(each, self.count))
            else:
                self._processes += [_Process(index, self.count, *each) for index, each in hosts.accept(arguments)]
        except BaseException:
            self.close()
            raise

    def begin_rollout(self, **state: Any) -> None:
        """Let each process collect a rollout in a state of this process, and train with it.

        Args:
            **state: Arguments of `AnswerCallback.synchronize`.
        """
        for process in self._processes:
            process.wait_until_ready()
        for process in self._processes:
            process.send("rollout", state)

    def exchange(self, gradients: NDArray[Any]) -> NDArray[Any]:
        """Return the mean of the gradients `(n,)` of all processes, and send it to them."""
        total = gradients.copy()
        for process in self._processes:  # always in the same order: sums of floats depend on it
            total += process.gradients(gradients)
        total /= self.count
        for process in self._processes:
            process.send_mean(total)
        return total

    def gather_rollouts(self, rollout: Rollout) -> Rollout:
        """Return the rollouts of all processes as a single rollout."""
        rollouts = [rollout, *(process.rollout() for process in self._processes)]
        return {name: np.concatenate([each[name] for each in rollouts]) for name in rollout}

    def end_learning(self) -> None:
        """Let the processes end their training at their next gradient step; they keep their state."""
        for process in self._processes:
            process.exchanges.close()

    def states(self) -> list[Any]:
        """Return the state of each process, which waits for its next rollout."""
        return [process.ask("state") for process in self._processes]

    def load_states(self, states: Sequence[Any]) -> None:
        """Restore the result of `states`."""
        for process, state in zip(self._processes, states, strict=True):
            process.ask("load", state)

    def close(self) -> None:
        """End the processes, and kill those that have not ended after `GRACE`."""
        end_processes(self._processes)


@contextlib.contextmanager
def other_learners(plan: RunPlan, resumed: bool = False) -> Iterator[OtherLearners | None]:
    """Start the other processes of a run, and end them; None if the config has a single learner."""
    hosts.check_learners(plan.config.learners)
    if plan.config.learners == 1:
        yield None
        return
    with contextlib.closing(OtherLearners(plan, resumed)) as learners:
        yield learners


class _Process:
    """A process, its pipe for commands and its pipe for gradients."""

    def __init__(self, index: int, count: int, handle: Any, commands: Connection, exchanges: Connection) -> None:
        self.name, self.count, self.handle = f"learner {index + 1} of {count}", count, handle
        self.commands, self.exchanges = commands, exchanges
        self._is_ready = False

    @classmethod
    def started(cls, arguments: tuple[Any, ...], count: int) -> _Process:
        """Start a process of this machine, with the arguments of `train_share` but the pipes."""
        context = multiprocessing.get_context("spawn")
        commands, other_commands = context.Pipe()
        exchanges, other_exchanges = context.Pipe()
        handle = context.Process(target=train_share, args=(*arguments, other_commands, other_exchanges), daemon=True)
        handle.start()
        other_commands.close()
        other_exchanges.close()
        return cls(arguments[1], count, handle, commands, exchanges)

    def send(self, command: str, data: Any = None) -> None:
        """Send a command to the process, which waits for it."""
        self._is_ready = False
        with contextlib.suppress(OSError):  # a dead process: the next answer is missing
            self.commands.send_bytes(pickle.dumps((command, data), pickle.HIGHEST_PROTOCOL))

    def ask(self, command: str, data: Any = None) -> Any:
        """Send a command; return the answer."""
        self.wait_until_ready()
        self.send(command, data)
        answer = self._answer(command)
        self._is_ready = True
        return answer

    def wait_until_ready(self) -> None:
        """Wait until the process waits for commands."""
        if self._is_ready:
            return
        if not self.exchanges.closed and self.exchanges in self._readable():
            self._read(self.exchanges)
            raise self._out_of_step("more")
        self._answer("ready")
        self._is_ready = True

    def gradients(self, like: NDArray[Any]) -> NDArray[Any]:
        """Return the gradients of the process, an array with the shape and type of `like`."""
        gradients = np.frombuffer(self._exchanged(), dtype=like.dtype)
        if gradients.shape != like.shape:
            why = "; with several learners, the parameters with a gradient must not depend on the data"
            raise RunError(f"{self.name} has {gradients.size} gradients, and the main process {like.size}{why}")
        return gradients

    def rollout(self) -> Rollout:
        """Return the rollout of the process."""
        rollout: Rollout = pickle.loads(self._exchanged())  # noqa: S301  (from a process of this run)
        return rollout

    def _exchanged(self) -> bytes:
        """Return the next message of the update."""
        if self.exchanges not in self._readable():
            self._answer("ready")
            raise self._out_of_step("fewer")
        return self._read(self.exchanges)

    def _readable(self) -> list[Any]:
        """Return the pipes with a message, or with an end; raise `RunError` if none has one for `PATIENCE`."""
        readable = wait([self.commands, self.exchanges], PATIENCE)
        if not readable:
            raise RunError(f"{self.name} has not answered for {PATIENCE:g} s")
        return readable

    def send_mean(self, gradients: NDArray[Any]) -> None:
        """Send the mean gradients of all processes."""
        with contextlib.suppress(OSError):  # a dead process: its next gradients are missing
            self.exchanges.send_bytes(gradients.data)

    def _read(self, pipe: Connection) -> bytes:
        """Return the next message; raise the error of the process, or that it is dead."""
        try:
            return pipe.recv_bytes()
        except (EOFError, OSError):
            if pipe is self.exchanges:
                self._answer("error")  # raises
            raise death_of(self.handle, self.name, "learners", self.count, "1") from None

    def _answer(self, expected: str) -> Any:
        """Return the next answer of the process; raise its error."""
        kind, answer = pickle.loads(self._read(self.commands))  # noqa: S301  (from a process of this run)
        if kind == "error":
            raise answer
        if kind != expected:
            raise RunError(f"{self.name} answers {kind!r} instead of {expected!r}")
        return answer

    def _out_of_step(self, amount: str) -> RunError:
        return RunError(
            f"{self.name} takes {amount} gradient steps than the main process; with several learners, the number must "
            "not depend on the data"
        )

    def close_pipes(self) -> None:
        """Close the pipes, which ends the process."""
        self.commands.close()
        self.exchanges.close()

    def stop(self) -> None:
        """Kill the process."""
        kill(self.handle)


class SynchronizeCallback(RolloutCallback):
    """Lets the other processes begin each rollout in the state of this process; it must be the last callback.

    Its state is that of the other processes.
    """

    def __init__(self, learners: OtherLearners) -> None:
        super().__init__()
        self.learners = learners
        self.has_hooks = False
        """Whether the model exchanges its gradients or rollouts already."""

    def around(self, callbacks: Sequence[BaseCallback]) -> list[BaseCallback]:
        """Return callbacks between a counter of the env steps of all processes, and this callback."""
        return [StepCountCallback(self.learners.count), *callbacks, self]

    def _init_callback(self) -> None:
        if not self.has_hooks:
            self.has_hooks = True
            train_jointly(self.model, self.learners.exchange, self.learners.gather_rollouts)

    def _on_rollout_start(self) -> None:
        model = self.model
        held = {name: vars(model).get(name) for name in may_be_scheduled(type(model))}
        self.learners.begin_rollout(
            steps=model.num_timesteps,
            values={name: value for name, value in held.items() if isinstance(value, int | float)},
            weights={name: tensor.cpu().numpy() for name, tensor in weights(model).items()},
            normalizer=normalizer_of(self.training_env),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the state of each other process, which has ended its rollout."""
        return {"processes": self.learners.states()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        self.learners.load_states(state["processes"])
