"""Train a robot arm: `python train.py --help`.

`train` below is every run from beginning to end; `mygym train` calls the same functions. A custom algorithm
is a file in `algos/` (see `algos/myalgo.py`); it appears in `implemented_combos` under its name.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mygym.cli import main
from mygym.errors import print_note
from mygym.registry import implemented_combos

if TYPE_CHECKING:
    from mygym.api import Config
    from mygym.training.result import Result


def train(config: Config | None = None, *, resume: str | Path | None = None, gui: bool = False) -> Result:
    """Train a new run, or resume a stopped run; return the content of its `result.json`."""
    from mygym.api import print_notes  # here, because these import torch, which `--help` does not need
    from mygym.strategies.requirements import prepare_run
    from mygym.training.env_factory import make_eval_envs, make_vec_env
    from mygym.training.learners import other_learners
    from mygym.training.model_factory import build_model
    from mygym.training.pretrained import load_pretrained
    from mygym.training.session import Session, open_result, start_run

    with ExitStack() as stack:
        # Config: schema < algorithm < task < file < flag. The plan adds the strategies and the task variants.
        start = stack.enter_context(start_run(config, resume, print_note))
        if start.complete:
            return start.complete
        plan = start.plan

        # Other processes, if the config has several `learners`: each builds its share of the environments, and a model.
        learners = stack.enter_context(other_learners(plan, start.checkpoint is not None))

        # Environments: separate ones for training and for evaluations.
        eval_envs = make_eval_envs(plan, stack)
        env = make_vec_env(plan, stack, gui)

        # Model: AlgoClass(*args, **kwargs); the config's `algo_params` replace the defaults in args and kwargs.
        combo = implemented_combos[plan.config.algo][plan.config.framework]
        model = build_model(plan, env, combo)
        load_pretrained(plan, model, env, resumed=start.checkpoint is not None)
        print_notes(plan, model)
        plan = prepare_run(plan, env, model)  # strategies may change the model or collect data before training

        # Run directory, logs and callbacks; learning; model.zip, its evaluation, videos and result.json.
        result = stack.enter_context(open_result(start, plan, model, eval_envs[0]))
        session = Session(
            plan, env, model, eval_envs, result, start.started, start.checkpoint, print_note, learners=learners
        )
        return session.run(partial(model.learn, plan.config.steps))  # learn(steps, callbacks)


if __name__ == "__main__":
    main.run("train", train=train)
