"""`mygym replay`: demonstrations, played again and filmed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mygym.cli.arguments import Parser, add_import_flag, check_video, import_modules
from mygym.config.loading import parse_value
from mygym.errors import ConfigError, RunError, bad_value

EXAMPLES = """\
examples:
  mygym replay demos/pick
  mygym replay demos/pick --episode 3 --camera top --video pick.mp4
  mygym replay demos/pick --video all.mp4 --width 640 --height 480

Every episode is repeated from its seed and its actions. If what is seen is not what is stored, to the bit, as with
another version of the simulator, that is said, and the exit code is 1; the video is written all the same.
"""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = _parser().parse_args(arguments)
    import_modules(options)
    episode = None if options.episode is None else parse_value(options.episode, "--episode")
    if episode is not None and (not isinstance(episode, int) or isinstance(episode, bool)):
        raise ConfigError(bad_value("--episode", options.episode, "a whole number"))
    sizes = {key: parse_value(said, f"--{key}") for key in ("width", "height") if (said := getattr(options, key))}
    if options.video is not None:
        check_video(Path(options.video))

    from mygym.api import replay

    replays = replay(options.dataset, episode=episode, video=options.video, camera=options.camera, **sizes)
    wrong = [one for one in replays if one.differs_at is not None]
    print(f"{len(replays)} episodes, {sum(one.steps for one in replays)} steps; {len(wrong)} not as stored")
    if options.video:
        print(f"video: {options.video}")
    if wrong:
        where = ", ".join(f"{one.number} from step {one.differs_at}" for one in wrong[:5])
        raise RunError(f"{options.dataset}: episodes that are not as stored: {where}{' …' if wrong[5:] else ''}")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "mygym replay",
        description="Play demonstrations again, compare them with what is stored, and film them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("dataset", metavar="DATASET", help="a folder that mygym demos has written")
    parser.add_argument("--episode", metavar="K", help="only this one; the first is 0")
    parser.add_argument("--camera", metavar="NAME", help="a camera of the workspace (mygym describe workspace table)")
    parser.add_argument("--video", metavar="FILE", help="film them as MP4")
    parser.add_argument("--width", metavar="PIXELS", help="of the film")
    parser.add_argument("--height", metavar="PIXELS", help="of the film")
    add_import_flag(parser)
    return parser
