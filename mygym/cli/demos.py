"""`mygym demos`: episodes of an expert or a policy, recorded as a dataset."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from mygym.cli.arguments import Parser, add_config_flags, config_layers, count, flag_value
from mygym.cli.main import say
from mygym.config import Layer, resolve
from mygym.config.loading import parse_value
from mygym.errors import ConfigError, bad_value

EXAMPLES = """\
examples:
  mygym demos pick_and_place --robot panda --episodes 100 --out demos/pick
  mygym demos push --robot kuka --noise '[0, 0.1, 0.3]' --out demos/push
  mygym demos AGMDW --episodes 50 --partial 0.5 --out demos/parts
  mygym demos --policy runs/reach/panda/sac/1a2b3c4d/seed_0 --out demos/reach
  mygym demos push --policy keyboard --episodes 10 --set task_params.horizon=300 --out demos/mine
  mygym demos push --policy random --keep-failures --out demos/random
  mygym replay demos/pick --episode 3 --camera top --video pick.mp4

The dataset is one of Minari's. Its `actions` are what was done, noise included; `infos["expert_action"]` is what the
scripted expert would have done there, whoever acted. Each episode is repeated to the bit by its seed and actions. The
last line printed is `dataset: PATH`.
"""
LEFT_OUT = ("task", "steps", "n_envs", "logdir", "engine")
"""Flags of the config that would say nothing of demonstrations; the task has no dashes."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = _parser().parse_args(arguments)
    episodes = count(options.episodes, "--episodes")
    noise, partial = parse_value(options.noise, "--noise"), parse_value(options.partial, "--partial")
    if isinstance(partial, bool) or not isinstance(partial, int | float):
        raise ConfigError(bad_value("--partial", options.partial, "a number above 0, at most 1"))
    file, flags = config_layers(options)
    if options.task is not None:
        flags["task"] = flag_value("task", options.task)
    seed = resolve([Layer("flag", {"seed": flags.get("seed", file.get("seed", 0))})]).config.seed

    from mygym.api import demonstrate
    from mygym.demonstrations.keyboard import HOW, KEYBOARD
    from mygym.runs.loading import is_run
    from mygym.runs.resolve_config import resolve_config

    of_run = is_run(options.policy)
    other = set(flags) - {"seed", "imports"}
    if of_run and (file or other):
        wrong = next(iter(sorted(other)), "config")
        raise ConfigError(bad_value("demos", wrong, "--seed, --noise, --partial", "does not go with a run"))
    if not of_run and not file and options.task is None:
        raise ConfigError("demos: say which task, e.g. mygym demos pick_and_place --out demos/pick")
    if options.policy == KEYBOARD:
        say(HOW)
    made = demonstrate(
        None if of_run else resolve_config(file, flags),
        out=options.out,
        policy=options.policy,
        episodes=episodes,
        noise=noise,
        partial=partial,
        keep_failures=options.keep_failures,
        seed=seed,
        trust=options.trust,
    )
    solved, attempts = made.about["solved"], made.about["attempts"]
    say(f"{len(made)} episodes, of {attempts} played {solved / attempts:.1%} solved; {made.mean_length:.1f} steps each")
    print(f"dataset: {made.path}")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "mygym demos",
        description="Record episodes of the scripted expert, or of any policy, as a dataset to learn from.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("task", nargs="?", metavar="TASK", help="a task, letters such as AGMDW, or [approach, push]")
    parser.add_argument("--out", required=True, metavar="DATASET", help="the dataset's folder, a new one")
    parser.add_argument("--episodes", default="100", metavar="N", help="how many to keep (default 100)")
    parser.add_argument(
        "--policy",
        default="oracle",
        metavar="P",
        help="who acts: oracle (default), keyboard (you, in a window), random, zero, hover, or a run",
    )
    parser.add_argument(
        "--noise",
        default="0",
        metavar="STD",
        help="standard deviation of noise on actions, whose range is [-1, 1]; of a list as many are kept of each",
    )
    parser.add_argument(
        "--partial", default="1", metavar="SHARE", help="keep this share of each episode, from a place drawn at random"
    )
    parser.add_argument("--keep-failures", action="store_true", help="keep episodes that do not end in success too")
    parser.add_argument(
        "--trust", action="store_true", help="open a .zip of somebody else's: its pickles can run any code"
    )
    add_config_flags(parser, leave_out=LEFT_OUT)
    return parser
