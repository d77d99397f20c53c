"""`mygym import`: convert a config file of another system."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mygym.cli.arguments import check_output
from mygym.cli.command import FORCE, argument, command
from mygym.cli.foreign_configs import convert_file, within_reach
from mygym.cli.output import print_note
from mygym.errors import ConfigError, bad_value

PARSER = command(
    "mygym import",
    "Convert a config file of the original myGym toolkit or of RL Baselines3 Zoo.",
    argument("file", metavar="FILE", help="the file: .json (comments allowed), .yaml or .yml"),
    argument("--env", metavar="ENV", help="the environment to choose from a file of RL Zoo, which has several"),
    argument("-o", "--out", metavar="FILE", help="a new .yaml file for the result (default: print it)"),
    FORCE,
    examples="""
mygym import AGM.json
mygym import AGM.json -o agm.yaml
mygym import tqc.yml --env PandaPickAndPlace-v3
""",
    notes="""
Standard error has a line for each key that has no meaning here, with the key that replaces it, and for each value that
is only approximated. `train.py --config FILE` converts a file of the toolkit as well.
""",
)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    out = Path(options.out) if options.out else None
    if out:
        check_output(out, "--out", [".yaml", ".yml"], options.force)
    _, conversion = convert_file(options.file, options.env)
    if conversion is None:
        why = "is not recognised as a config of another system; train.py reads the configs of mygym as they are"
        raise ConfigError(bad_value("import", options.file, "a file of the original myGym toolkit or of RL Zoo", why))
    conversion, refusal = within_reach(conversion, {})

    from mygym.training.files import to_yaml, write_text

    text = f"{to_yaml(conversion.config).rstrip()}\n"
    for note in conversion.notes:
        print_note(note)
    if refusal:
        print_note(f"train.py refuses this config until you change it: {refusal}")
    if out:
        comments = [
            f"# {line}\n" for line in (f"Converted by mygym import from {Path(options.file).name}.", *conversion.notes)
        ]
        write_text(out, "".join(comments) + text)
        print(f"file: {out}")
    else:
        print(text, end="")
