"""`mygym demos` and `replay`: record demonstrations of an expert or a policy as a dataset, and replay it."""

from __future__ import annotations

import argparse
from pathlib import Path

from mygym.cli.command import (
    CONFIG_FLAGS,
    FORCE,
    TRUST,
    argument,
    check_output,
    command,
    count,
    parse_integer,
    parse_seed,
)
from mygym.cli.config_files import check_engine, config_layers
from mygym.config.loading import parse_value
from mygym.errors import ConfigError, RunError, bad_value, counted, print_message

UNUSED_FLAGS = {"task", "steps", "n_envs", "learners", "logdir", "engine"}
"""Config flags without a meaning for demonstrations; the task is a positional argument."""


@command(
    "mygym demos",
    argument("task", nargs="?", metavar="TASK", help=CONFIG_FLAGS["task"][1]),
    argument("--out", required=True, metavar="DATASET", help="folder of the dataset; it must not exist"),
    count("--episodes", "number of episodes to keep", 100),
    argument(
        "--policy",
        default="oracle",
        metavar="P",
        help="acting policy: oracle (default), keyboard (you, in a window), random, zero, hover, or a run",
    ),
    argument(
        "--noise",
        default="0",
        metavar="STD",
        help="standard deviation of the noise on actions in [-1, 1]; a list keeps equally many episodes of each",
    ),
    argument("--partial", default="1", metavar="SHARE", help="keep this share of each episode, from a random start"),
    argument("--keep-failures", action="store_true", help="also keep episodes that end without success"),
    argument(
        "--format",
        default="minari",
        metavar="F",
        help="minari (default), which mygym reads; or lerobot: LeRobotDataset v3.0, with the cameras of `observations`",
    ),
    TRUST,
    config_flags=CONFIG_FLAGS.keys() - UNUSED_FLAGS,
    examples="""
mygym demos pick_and_place --robot panda --episodes 100 --out demos/pick
mygym demos push --robot kuka --noise '[0, 0.1, 0.3]' --out demos/push
mygym demos AGMDW --episodes 50 --partial 0.5 --out demos/partial
mygym demos --policy runs/reach/panda/sac/1a2b3c4d/seed_0 --out demos/reach
mygym demos push --policy keyboard --episodes 10 --set task_params.horizon=300 --out demos/keyboard
mygym demos push --policy random --keep-failures --out demos/random
mygym demos push --format lerobot --set observations='[image, image:wrist, joint_position]' --out demos/lerobot
mygym replay demos/pick --episode 3 --camera top --video pick.mp4
""",
    notes="""
In Minari's format `actions` are the executed actions, noise included; `infos["expert_action"]` are the
actions of the scripted expert in the same states, for every acting policy. Seed and actions repeat an episode exactly.
The last line printed is `dataset: PATH`.
""",
)
def demos(options: argparse.Namespace) -> None:
    """Record episodes of the scripted expert, or of any policy, as a dataset for imitation learning."""
    noise, partial = parse_value(options.noise, "--noise"), parse_value(options.partial, "--partial")
    if isinstance(partial, bool) or not isinstance(partial, int | float):
        raise ConfigError(bad_value("--partial", options.partial, "a number above 0, at most 1"))
    file, flags = config_layers(options)
    seed = parse_seed(flags.get("seed", file.get("seed", 0)))

    from mygym.api import demonstrate
    from mygym.demonstrations.teleoperation import INSTRUCTIONS, KEYBOARD
    from mygym.planning.resolve import resolve_config
    from mygym.training.loading import is_saved_policy

    of_run = is_saved_policy(options.policy)
    unused = set(flags) - {"seed", "imports"}
    if of_run and (file or unused):
        wrong = next(iter(sorted(unused)), "config")
        raise ConfigError(bad_value("demos", wrong, "--seed, --noise, --partial", "cannot be combined with a run"))
    if not of_run and not file and options.task is None:
        if Path(options.policy).name != options.policy:
            raise ConfigError(
                bad_value("--policy", options.policy, "a run, or a policy's name", "is not a saved policy")
            )
        raise ConfigError("demos: give a TASK, e.g. mygym demos pick_and_place --out demos/pick")
    if options.policy == KEYBOARD:
        print_message(INSTRUCTIONS)
    resolved = None if of_run else resolve_config(file, flags)
    if resolved is not None:
        check_engine(resolved.config, flags)
    dataset = demonstrate(
        resolved,
        out=options.out,
        policy=options.policy,
        episodes=options.episodes,
        noise=noise,
        partial=partial,
        keep_failures=options.keep_failures,
        seed=seed,
        trust=options.trust,
        format=options.format,
    )
    solved, attempts = dataset.about["solved"], dataset.about["attempts"]
    rate = f"{solved / attempts:.1%} of {attempts} attempts solved"
    print_message(f"{counted(len(dataset), 'episode')}; {rate}; {dataset.mean_length:.1f} steps per episode")
    print(f"dataset: {dataset.path}")


SHOWN = 5
"""Maximum number of differing episodes in the message."""


@command(
    "mygym replay",
    argument("dataset", metavar="DATASET", help="a folder that `mygym demos` has written"),
    argument("--episode", metavar="K", help="replay only this episode; the first is 0"),
    argument("--camera", metavar="NAME", help="a camera of the workspace (mygym describe workspace table)"),
    argument("--video", metavar="FILE", help="write an MP4 video, or a GIF"),
    FORCE,
    argument("--width", metavar="PIXELS", help="width of the video"),
    argument("--height", metavar="PIXELS", help="height of the video"),
    examples="""
mygym replay demos/pick
mygym replay demos/pick --episode 3 --camera top --video pick.mp4
mygym replay demos/pick --video all.mp4 --width 640 --height 480
""",
    notes="""
Every episode is repeated from its seed and its actions. If an observation is not bit-identical to the stored
observation, e.g. with another version of the simulator, the command lists the episodes and the exit code is 1; the
video is written anyway.
""",
)
def replay(options: argparse.Namespace) -> None:
    """Replay the episodes of a dataset, compare them with the stored observations, and record videos."""
    episode = None if options.episode is None else parse_integer(options.episode, "--episode")
    sizes = {key: parse_value(text, f"--{key}") for key in ("width", "height") if (text := getattr(options, key))}
    if options.video is not None:
        from mygym.training.video import OUTPUTS

        check_output(Path(options.video), "--video", OUTPUTS, options.force)

    from mygym.api import replay

    replays = replay(options.dataset, episode=episode, video=options.video, camera=options.camera, **sizes)
    different = [replayed for replayed in replays if replayed.differs_at is not None]
    steps = sum(replayed.steps for replayed in replays)
    print(f"{counted(len(replays), 'episode')}, {steps} steps; {len(different)} differ from the dataset")
    if options.video:
        print(f"video: {options.video}")
    if different:
        where = ", ".join(f"{replayed.number} from step {replayed.differs_at}" for replayed in different[:SHOWN])
        more = " …" if different[SHOWN:] else ""
        raise RunError(f"{options.dataset}: episodes that differ from the dataset: {where}{more}")
