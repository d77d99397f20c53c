"""Config of a command, from its file and its flags; and `mygym import`: convert a config file of another system."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mygym.cli.command import CONFIG_FLAGS, FORCE, argument, check_output, command, flag_value
from mygym.config import RunConfig, load_file, merge_configs, parse_overrides
from mygym.config.toolkit import Conversion
from mygym.engines.engine import judge_of
from mygym.errors import ConfigError, MygymError, RegistryError, bad_value, print_message, print_note
from mygym.training.files import to_yaml, write_text

SHARES = (1.0, 0.9, 0.8, 0.65, 0.5)
"""Sizes of an area that are tried, until the robot reaches all of it."""

PLACES = ("robot", "workspace", "task")
"""Keys that the areas of a file belong to."""


def config_layers(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of the config file, which may be of another system, and the values of the flags."""
    texts = {key: getattr(options, key, None) for key in CONFIG_FLAGS}
    flags = {key: flag_value(key, text) for key, text in texts.items() if text is not None}
    flags |= {"imports": options.imports} if options.imports else {}
    flags = merge_configs(flags, parse_overrides(options.set))
    if not options.config:
        return {}, flags
    return read_config(options.config, flags), flags


def check_engine(config: RunConfig, flags: Mapping[str, Any], flag: str = "") -> None:
    """Refuse a flag for an engine in which no episode is played, and print a note on that of a file.

    `flag` is the command's own flag for the engine of the episodes; empty without one.
    """
    judge = judge_of(config.engine)
    if judge == config.engine:
        return
    why = f"is the engine of training; episodes are played in {judge}"
    if "engine" in flags:
        allowed = f"{judge}; or {flag}, the engine of the episodes" if flag else judge
        raise ConfigError(bad_value("engine", config.engine, allowed, why))
    print_note(f"engine: {config.engine} {why}")


def read_config(path: str | Path, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config in a file; a file of another system is converted, and the notes are printed.

    Raises:
        ConfigError: The file cannot be read, or a value of another system has no counterpart here.
    """
    content, conversion = convert_file(path)
    if conversion is None:
        return content
    conversion, _ = within_reach(conversion, flags)
    print_message(
        "\n".join(
            [
                f"{path} is converted (mygym import {shlex.quote(str(path))} -o NEW.yaml writes the result):",
                *conversion.notes,
            ]
        )
    )
    return conversion.config


def convert_file(path: str | Path, env_id: str | None = None) -> tuple[dict[str, Any], Conversion | None]:
    """Return the content of a file and its conversion, which is None if the file is of no other system.

    `env_id` chooses an environment from a file that has several.

    Raises:
        ConfigError: The file cannot be read, or a value has no counterpart here; the message names the file.
    """
    from mygym.config import toolkit, zoo

    repeated: list[str] = []
    content = load_file(path, repeated)
    try:
        converter = next((system for system in (toolkit, zoo) if system.recognises(content)), None)
        conversion = converter.convert(content, path, env_id) if converter else None
        if conversion is None and repeated:
            raise ConfigError(repeated[0])
    except (ConfigError, RegistryError) as error:
        raise ConfigError(f"config: {path}: {error}") from None
    if conversion is not None:
        notes = [*(f"{message}: the last counts" for message in repeated), *conversion.notes]
        conversion = replace(conversion, notes=notes)
    return content, conversion


def within_reach(conversion: Conversion, flags: Mapping[str, Any]) -> tuple[Conversion, str]:
    """Shrink the areas that the robot does not reach here whole, or leave them out, so that the workspace's apply.

    Also return the reason why the config of the conversion cannot be trained; empty if it can.
    """
    params = dict(conversion.config.get("task_params", {}))
    areas = params.pop("areas", {})
    config = {**conversion.config, "task_params": params}
    notes = list(conversion.notes)
    if any(key in flags and flags[key] != config.get(key) for key in PLACES):
        notes += [
            f"task_params.areas.{name}: left out, because a flag changes robot, workspace or task" for name in areas
        ]
        areas = {}
    reason = _refusal(merge_configs(config, flags))
    kept: dict[str, Any] = {}
    for name, area in areas.items():
        fault = reason
        for share in () if reason else SHARES:
            smaller = _shrunk(area, share)
            tried = {**config, "task_params": {**params, "areas": {name: smaller}}}
            if not (refused := _refusal(merge_configs(tried, flags))):
                kept[name] = smaller
                if share < 1.0:
                    notes.append(f"task_params.areas.{name}: shrunk to {share:.0%} about its centre; whole: {fault}")
                break
            fault = fault or refused
        if name not in kept:
            why = "" if reason else f"; {fault}"
            notes.append(f"task_params.areas.{name}: left out, the workspace's applies{why}")
    if len(kept) > 1 and _refusal(merge_configs(config | {"task_params": {**params, "areas": kept}}, flags)):
        notes += [f"task_params.areas.{name}: left out, because the areas do not go together" for name in kept]
        kept = {}
    if kept:
        config["task_params"] = {**params, "areas": kept}
    return replace(conversion, config={key: value for key, value in config.items() if value != {}}, notes=notes), reason


def _shrunk(area: Mapping[str, Sequence[float]], share: float) -> dict[str, list[float]]:
    """Return an area whose edges have a share of their lengths, with the same centre."""
    if share == 1.0:
        return {corner: list(point) for corner, point in area.items()}
    edges = list(zip(area["low"], area["high"], strict=True))
    return {
        "low": [round((low + high) / 2 - share * (high - low) / 2, 4) for low, high in edges],
        "high": [round((low + high) / 2 + share * (high - low) / 2, 4) for low, high in edges],
    }


def _refusal(config: Mapping[str, Any]) -> str:
    """Return the reason why the environment of a config cannot be made; empty if it can."""
    from mygym.api import make_env

    try:
        make_env(config).close()
    except MygymError as error:
        return str(error)
    return ""


@command(
    "mygym import",
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
def import_config(options: argparse.Namespace) -> None:
    """Convert a config file of the original myGym toolkit or of RL Baselines3 Zoo."""
    out = Path(options.out) if options.out else None
    if out:
        check_output(out, "--out", [".yaml", ".yml"], options.force)
    _, conversion = convert_file(options.file, options.env)
    if conversion is None:
        why = "is not recognised as a config of another system; train.py reads the configs of mygym as they are"
        raise ConfigError(bad_value("import", options.file, "a file of the original myGym toolkit or of RL Zoo", why))
    conversion, refusal = within_reach(conversion, {})

    text = f"{to_yaml(conversion.config).rstrip()}\n"
    for note in conversion.notes:
        print_message(note)
    if refusal:
        print_message(f"train.py refuses this config until you change it: {refusal}")
    if out:
        comments = [
            f"# {line}\n" for line in (f"Converted by mygym import from {Path(options.file).name}.", *conversion.notes)
        ]
        write_text(out, "".join(comments) + text)
        print(f"file: {out}")
    else:
        print(text, end="")
