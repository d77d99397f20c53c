"""`mygym card`: how often chance, idleness and the expert solve a task, and what they are paid."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from mygym.cli.arguments import CONFIG_FLAGS, Parser, add_import_flag, count, flag_value, import_modules
from mygym.cli.main import say
from mygym.cli.tables import print_table
from mygym.config import Layer, load_file, merged, parse_overrides, resolve
from mygym.errors import ConfigError

EXAMPLES = """\
examples:
  mygym card push
  mygym card AGMDW --robot xarm6_gripper --control joint_delta
  mygym card "[approach, push]" --episodes 20
  mygym card open_drawer --json
  mygym card --config mine.yaml --set task_params.tolerance=0.02

A task is to be worth learning: not solved at its reset (at most 0.5 % of resets) nor by chance or idleness (at most
5 % of episodes; 20 % where a point in space is all there is to reach), solved by its expert (at least 95 %), whom each
kind of reward pays more than any idle policy. Of 100 episodes none solved show, with 95 % confidence, that at most 3 %
are, and all solved that at least 97 % are (the column `bound`). `mygym check task NAME` fails where a card does.
"""
FLAGS = ("robot", "workspace", "control")


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = _parser().parse_args(arguments)
    import_modules(options)
    episodes = count(options.episodes, "--episodes")
    flags = {key: flag_value(key, said) for key in ("task", *FLAGS) if (said := getattr(options, key)) is not None}
    file = load_file(options.config) if options.config else {}
    flags = merged(flags, parse_overrides(options.set))
    resolve([Layer("file", file), Layer("flag", flags)])  # mistakes of kind, before a robot is looked for
    config = merged(file, flags)
    if "task" not in config:
        raise ConfigError("card: give a TASK, or a --config that names one")

    from mygym.checks.cards import IDLE, REWARDS, in_words, make_card

    name = options.task or options.config or config["task"]
    card = make_card(config, episodes, lambda said: say(f"card of {name}: {said}"))
    content = card.to_json()
    if options.json:
        print(json.dumps(content, indent=2))
        return
    print(f"{content['task']}: {content['words']}")
    where = f"{content['robot']}, workspace {content['workspace']}, {content['control']}"
    print(f"{where}; {in_words(episodes)} of each policy")
    print_table(
        [
            {
                "policy": policy,
                "solved": f"{one['success_rate']:.1%}",
                "bound": f"≤ {one['at_most']:.1%}" if policy in IDLE else f"≥ {one['at_least']:.1%}",
                "steps": f"{one['mean_length']:.1f}",
                **{f"{kind} return": f"{one['returns'][kind]:.2f}" for kind in REWARDS},
                "episodes end in": ", ".join(f"{stage} {count}" for stage, count in one["stage_reached"].items()),
            }
            for policy, one in content["policies"].items()
        ]
    )
    print(f"solved at reset: {content['solved_at_reset']:.1%} of {content['resets']} resets")
    for demanded, said in content["flaws"].items():
        print(f"{demanded}: NO, {said}")
    if content["flaws"]:
        return
    if content["inconclusive"]:
        print(f"nothing wrong so far, but {'; '.join(content['inconclusive'])}: more --episodes are needed to tell")
    else:
        print("nothing is wrong with it")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "mygym card",
        description="How often chance, idleness and the scripted expert solve a task, and what they are paid for it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("task", nargs="?", metavar="TASK", help=CONFIG_FLAGS["task"][1])
    parser.add_argument("--config", metavar="FILE", help="YAML or JSON file with any of the config's keys")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any key of the config")
    for key in FLAGS:
        metavar, help = CONFIG_FLAGS[key]
        parser.add_argument(f"--{key}", metavar=metavar, help=help)
    parser.add_argument("--episodes", default="100", metavar="N", help="of each policy, and 6 N resets (default 100)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_import_flag(parser)
    return parser
