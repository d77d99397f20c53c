"""`mygym replay`: replay demonstrations and record videos."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mygym.cli.arguments import check_output, parse_integer
from mygym.cli.command import FORCE, argument, command
from mygym.config.loading import parse_value
from mygym.errors import RunError

PARSER = command(
    "mygym replay",
    "Replay the episodes of a dataset, compare them with the stored observations, and record videos.",
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
SHOWN = 5
"""Maximum number of differing episodes in the message."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    episode = None if options.episode is None else parse_integer(options.episode, "--episode")
    sizes = {key: parse_value(text, f"--{key}") for key in ("width", "height") if (text := getattr(options, key))}
    if options.video is not None:
        from mygym.training.video import OUTPUTS

        check_output(Path(options.video), "--video", OUTPUTS, options.force)

    from mygym.api import replay

    replays = replay(options.dataset, episode=episode, video=options.video, camera=options.camera, **sizes)
    different = [replayed for replayed in replays if replayed.differs_at is not None]
    steps = sum(replayed.steps for replayed in replays)
    print(f"{len(replays)} episodes, {steps} steps; {len(different)} differ from the dataset")
    if options.video:
        print(f"video: {options.video}")
    if different:
        where = ", ".join(f"{replayed.number} from step {replayed.differs_at}" for replayed in different[:SHOWN])
        more = " …" if different[SHOWN:] else ""
        raise RunError(f"{options.dataset}: episodes that differ from the dataset: {where}{more}")
