"""Code of the other processes of a run with several `learners`: each has a share of the environments."""

from __future__ import annotations

import contextlib
import pickle
import signal
from collections.abc import Mapping
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.registry import user_files
from mygym.registry.user_files import user_modules
from mygym.training.env_processes.process_main import picklable_error
from mygym.training.stop_request import SIGNALS


def train_share(
    values: Mapping[str, Any],
    index: int,
    resumed: bool,
    commands: Connection,
    exchanges: Connection,
    excluded: frozenset[Path],
) -> None:
    """Train until the main process ends the training; then answer its commands until it closes the pipe.

    Args:
        values: The complete config.
        index: Number of the process; the main process is 0.
        resumed: Whether the run continues from a checkpoint.
        commands: Commands of the main process, and answers.
        exchanges: Gradients of this process, and their means of all processes; or rollouts of this process.
        excluded: Folders from which no user's module is imported.
    """
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    user_modules.excluded = excluded
    with contextlib.suppress(EOFError, ConnectionError), commands:
        try:
            user_files.import_modules(values["imports"])
            _train(values, index, resumed, commands, exchanges)
        except (EOFError, ConnectionError):
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
    from mygym.training.learners.answers import AnswerCallback
    from mygym.training.learners.joint_training import StepCountCallback, set_noise_seed, train_jointly
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
    """Send a rollout to the main process, which trains.

    Raises:
        LearningEnded: The main process has ended the training.
    """
    try:
        pipe.send_bytes(pickle.dumps(rollout, pickle.HIGHEST_PROTOCOL))
    except ConnectionError:
        raise LearningEnded from None


def _mean_of_processes(pipe: Connection, gradients: NDArray[Any]) -> NDArray[Any]:
    """Send gradients, `(n,)`, to the main process; return the mean of all processes.

    Raises:
        LearningEnded: The main process has ended the training.
    """
    try:
        pipe.send_bytes(gradients.data)
        return np.frombuffer(bytearray(pipe.recv_bytes()), dtype=gradients.dtype)
    except (EOFError, ConnectionError):
        raise LearningEnded from None
