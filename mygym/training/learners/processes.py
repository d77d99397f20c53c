"""The other processes of a run with several `learners`, as the main process sees them.

Each process has a share of the environments, in lock-step. Before each step of an optimiser, the processes exchange
their gradients, and each takes the step with the mean; a model of JAX, whose update is a few compiled calls, trains in
the main process with the rollouts of all. The main process decides all else: it evaluates, writes checkpoints, and
begins each rollout.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback

from mygym.config.schedules import may_be_scheduled
from mygym.errors import MygymError, RunError
from mygym.planning.plan import RunPlan
from mygym.registry.user_files import user_modules
from mygym.training.env_processes.env_process import GRACE, UNGUARDED, death_of, signals_blocked
from mygym.training.learners.joint_training import Rollout, StepCountCallback, train_jointly
from mygym.training.learners.learner import train_share
from mygym.training.policy import normalizer_of, weights

PATIENCE = 600.0
"""Time limit for a message of a process, s: its rollouts may take minutes, and its start on a busy machine as well."""


class OtherLearners:
    """The other processes; they start at once, and build environments and model at the same time as this process.

    Args:
        plan: The plan of the run; `learners` in its config is at least 2.
        resumed: Whether the run continues from a checkpoint.

    Raises:
        ConfigError: The main script starts the processes without `if __name__ == "__main__":`.
    """

    def __init__(self, plan: RunPlan, resumed: bool = False) -> None:
        if getattr(multiprocessing.current_process(), "_inheriting", False):  # a process that imports the main script
            sys.exit(UNGUARDED)
        self.count = plan.config.learners
        self._processes: list[_Process] = []
        try:
            with signals_blocked():
                for index in range(1, self.count):
                    self._processes.append(_Process(plan, index, resumed))
        except BaseException:
            self.close()
            raise

    def begin_rollout(
        self,
        steps: int,
        values: Mapping[str, float],
        weights: Mapping[str, NDArray[Any]],
        normalizer: Mapping[str, Any] | None,
    ) -> None:
        """Let each process collect a rollout, and train with it.

        Args:
            steps: Env steps so far.
            values: Hyperparameters that may change during training.
            weights: Weights of the policy by name.
            normalizer: Running figures of the normaliser; None: observations are not normalised.

        Raises:
            MygymError: A process has failed.
        """
        data = {"steps": steps, "values": values, "weights": weights, "normalizer": normalizer}
        for process in self._processes:
            process.wait_until_ready()
        for process in self._processes:
            process.send("rollout", data)

    def exchange(self, gradients: NDArray[Any]) -> NDArray[Any]:
        """Return the mean of the gradients of all processes, and send it to them.

        Args:
            gradients: `(n,)`, of this process.

        Raises:
            MygymError: A process has failed.
        """
        total = gradients.copy()
        for process in self._processes:  # always in the same order: sums of floats depend on it
            total += process.gradients(gradients)
        total /= self.count
        for process in self._processes:
            process.send_mean(total)
        return total

    def gather_rollouts(self, rollout: Rollout) -> Rollout:
        """Return the rollouts of all processes as a single rollout.

        Args:
            rollout: Rollout of this process.

        Raises:
            MygymError: A process has failed.
        """
        rollouts = [rollout, *(process.rollout() for process in self._processes)]
        return {name: np.concatenate([each[name] for each in rollouts]) for name in rollout}

    def end_learning(self) -> None:
        """Let the processes end their training at their next gradient step; they keep their state."""
        for process in self._processes:
            process.exchanges.close()

    def states(self) -> list[Any]:
        """Return the state of each process, which waits for its next rollout.

        Raises:
            MygymError: A process has failed.
        """
        return [process.ask("state") for process in self._processes]

    def load_states(self, states: Sequence[Any]) -> None:
        """Restore the result of `states`.

        Raises:
            MygymError: A process has failed.
        """
        for process, state in zip(self._processes, states, strict=True):
            process.ask("load", state)

    def close(self) -> None:
        """End the processes, and kill those that have not ended after `GRACE`."""
        for process in self._processes:
            process.close_pipes()
        deadline = time.monotonic() + GRACE
        for process in self._processes:
            process.stop(max(0.0, deadline - time.monotonic()))
        self._processes.clear()


@contextlib.contextmanager
def other_learners(plan: RunPlan, resumed: bool = False) -> Iterator[OtherLearners | None]:
    """Start the other processes of a run, and end them; None if the config has a single learner.

    Args:
        plan: The plan of the run.
        resumed: Whether the run continues from a checkpoint.
    """
    if plan.config.learners == 1:
        yield None
        return
    with contextlib.closing(OtherLearners(plan, resumed)) as learners:
        yield learners


class _Process:
    """A process, its pipe for commands and its pipe for gradients."""

    def __init__(self, plan: RunPlan, index: int, resumed: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self.count = plan.config.learners
        self.name = f"learner {index + 1} of {self.count}"
        self.commands, other_commands = context.Pipe()
        self.exchanges, other_exchanges = context.Pipe()
        self._is_ready = False
        arguments = (plan.resolved.values(), index, resumed, other_commands, other_exchanges, user_modules.excluded)
        self.process = context.Process(target=train_share, args=arguments, daemon=True)
        self.process.start()
        other_commands.close()
        other_exchanges.close()

    def send(self, command: str, data: Any = None) -> None:
        """Send a command to the process, which waits for it."""
        self._is_ready = False
        with contextlib.suppress(ConnectionError):  # a dead process: the next answer is missing
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
        """Return the pipes with a message, or with an end.

        Raises:
            RunError: The process has sent nothing for `PATIENCE`.
        """
        readable = wait([self.commands, self.exchanges], PATIENCE)
        if not readable:
            raise RunError(f"{self.name} has not answered for {PATIENCE:g} s")
        return readable

    def send_mean(self, gradients: NDArray[Any]) -> None:
        """Send the mean gradients of all processes."""
        with contextlib.suppress(ConnectionError):  # a dead process: its next gradients are missing
            self.exchanges.send_bytes(gradients.data)

    def _read(self, pipe: Connection) -> bytes:
        """Return the next message.

        Raises:
            MygymError: The process is dead, or its error.
        """
        try:
            return pipe.recv_bytes()
        except (EOFError, ConnectionError):
            if pipe is self.exchanges:
                self._answer("error")  # raises
            raise self._death() from None

    def _answer(self, expected: str) -> Any:
        """Return the next answer of the process.

        Raises:
            MygymError: The process has failed or is dead.
        """
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

    def _death(self) -> MygymError:
        return death_of(self.process, self.name, "learners", self.count, "1")

    def close_pipes(self) -> None:
        """Close the pipes, which ends the process."""
        self.commands.close()
        self.exchanges.close()

    def stop(self, patience: float) -> None:
        """Wait for the end of the process; kill it if it does not end within `patience` s."""
        self.process.join(patience)
        self.process.kill()
        self.process.join(GRACE)
        with contextlib.suppress(ValueError):  # the process hangs in the kernel and survives the kill
            self.process.close()


class SynchronizeCallback(BaseCallback):
    """Lets the other processes begin each rollout in the state of this process; it must be the last callback.

    Its state is that of the other processes.

    Args:
        learners: The other processes.
    """

    def __init__(self, learners: OtherLearners) -> None:
        super().__init__()
        self.learners = learners
        self.has_hooks = False
        """Whether the model exchanges its gradients or rollouts already."""

    def around(self, callbacks: Sequence[BaseCallback]) -> list[BaseCallback]:
        """Return callbacks between a counter of the env steps of all processes, and this callback.

        Args:
            callbacks: The other callbacks of the run.
        """
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

    def _on_step(self) -> bool:
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return the state of each other process, which has ended its rollout."""
        return {"processes": self.learners.states()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        self.learners.load_states(state["processes"])
