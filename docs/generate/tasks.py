"""A page for each task: picture, stages, spaces, rewards, card, learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docs.generate.markdown import (
    BENCHMARKS,
    as_yaml,
    built_in,
    code,
    page,
    picture,
    section,
    stored_rows,
    table,
    toctree,
    video,
)
from docs.generate.names import task_table
from mygym.cli.describe import describe_task
from mygym.envs.ids import env_id
from mygym.envs.robot_env import RobotEnv
from mygym.envs.supported import a_robot_for, combinations
from mygym.exporting.export import describe_action, describe_observation
from mygym.registry import registry
from mygym.tasks.lookup import find_task

RESULTS = "../../../benchmarks/results"
"""The stored results, from the page of a task."""

TABLES = {"core": "All algorithms", "learning": "Further engines, robots and settings"}
"""Folder in `benchmarks/tables` with results of the task → title."""


def pages() -> dict[str, str]:
    """Return a page for each built-in task, and their list."""
    names = [entry.name for entry in built_in("task")]
    overview = page(
        "Tasks",
        picture("task", "pick_and_place", up=2),
        "A task is a sequence of stages. A page for each built-in task:",
        task_table().replace("](tasks/", "]("),
        "[Tasks from stages](../../tasks_from_stages.md) composes others. [Names](../names.md) has the other kinds.",
        toctree(f"{name}.md" for name in names),
    )
    return {"tasks/index.md": overview, **{f"tasks/{name}.md": task_page(name) for name in names}}


def task_page(name: str) -> str:
    """Return the page of a task."""
    task, content = find_task(name), describe_task(name)
    robot = a_robot_for(task)
    with RobotEnv(name, robot) as env:
        observation, action = describe_observation(env, env), describe_action(env)
    return page(
        name,
        f"{content['help'].capitalize()}: {content['in words']}.",
        f"{picture('task', name, up=2)} {video(name)}",
        f"Environment id: {code(env_id(name))}.",
        section("Stages", _stages(task.stage_names), _end(content)),
        section(
            "Action", f"With robot {code(robot)} and its default controller. {action['meaning']}.", _components(action)
        ),
        section("Observation", *(_array(key, entry) for key, entry in observation.items())),
        section("Rewards", _rewards()),
        section("Start and goal", as_yaml({key: content[key] for key in ("objects", "goals from", "goal vector")})),
        section("Card", _card(name)),
        section("Learning", _learning(name)),
        section("Robots and workspaces", _supported(name)),
        section("A run takes", _taken(name, content["a run takes"])),
    )


def _taken(name: str, taken: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [(code(key), code(entry["value"]), entry["origin"]) for key, entry in taken.items()]
    command = f"With {code(f'mygym train --task {name}')}; `--explain` prints every value of a run."
    return f"{command}\n\n{table(['key', 'value', 'origin'], rows)}"


def _stages(names: Sequence[str]) -> str:
    rows = []
    for number, name in enumerate(names, start=1):
        stage = registry("stage").get(name).load()
        meanings = [", ".join(getattr(stage, key)) for key in ("requires", "gives")]
        rows.append((str(number), code(name), stage.letter, registry("stage").get(name).help, *meanings))
    return table(["", "stage", "letter", "in words", "requires", "gives"], rows)


def _end(content: Mapping[str, Any]) -> str:
    return (
        f"Success: within {content['tolerance']} of the goal (of a part that rotates: rad), for {content['hold']}. "
        f"The episode is truncated after {content['horizon']}, and fails when an object leaves the workspace."
    )


def _components(action: Mapping[str, Any]) -> str:
    rows = [(code(part["name"]), part.get("low"), part.get("high"), part.get("unit")) for part in action["components"]]
    return table(["component", "-1 commands", "1 commands", "unit"], rows)


def _array(key: str, entry: Mapping[str, Any]) -> str:
    rows = [
        (
            code(part["name"]),
            f"{part['slice'][0]}:{part['slice'][1]}",
            part.get("unit"),
            part.get("frame"),
            part.get("bound"),
        )
        for part in entry["components"]
    ]
    columns = ["component", "slice", "unit", "frame", "within ±"]
    return f"{code(key)}, `{tuple(entry['shape'])}` {entry['dtype']}:\n\n{table(columns, rows)}"


def _rewards() -> str:
    return table(["reward", "in words"], [(code(entry.name), entry.help) for entry in built_in("reward")])


def _card(name: str) -> str:
    rows = stored_rows("results/cards.md", f"| {name} |")
    source = f"From [the stored cards]({RESULTS}/cards.md), made by `python benchmarks/cards.py --episodes 30`:"
    return f"{source}\n\n{rows}" if rows else ""


def _learning(name: str) -> str:
    parts = []
    for folder, title in TABLES.items():
        if rows := stored_rows(f"tables/{folder}/table.md", f"--task {name} "):
            place = f"../../../benchmarks/tables/{folder}"
            source = f"From [the table]({place}/table.md) of `mygym benchmark benchmarks/tables/{folder}`:"
            curves = f"curves/{name}.png"  # runs of few steps have none
            is_drawn = (BENCHMARKS / "tables" / folder / curves).is_file()
            parts += [f"**{title}.** {source}", *([f"![learning curves]({place}/{curves})"] if is_drawn else []), rows]
    return "\n\n".join(parts)


def _supported(name: str) -> str:
    workspaces: dict[str, list[str]] = {}
    for combination in combinations((name,)):
        workspaces.setdefault(combination.workspace, []).append(code(combination.robot))
    note = "The scripted expert solves the task with each; with the extra `robots` the list is longer."
    return (
        f"{table(['workspace', 'robots'], [(code(key), ' '.join(value)) for key, value in workspaces.items()])}\n{note}"
    )
