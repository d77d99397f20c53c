"""Names of all built-in components, and the table of tasks."""

from __future__ import annotations

from docs.generate.markdown import built_in, code, page, section, table
from mygym.envs.ids import env_id
from mygym.registry import REGISTRIES
from mygym.tasks.lookup import find_task

FLAGS = {
    "task": "--task",
    "robot": "--robot",
    "workspace": "--workspace",
    "controller": "--control",
    "reward": "--reward",
    "algorithm": "--algo",
    "strategy": "--strategy",
    "policy": "--policy of `evaluate.py`",
}
"""Kind → flag that takes its names."""


def pages() -> dict[str, str]:
    """Return the page of names."""
    kinds = [*FLAGS, *(kind for kind in REGISTRIES if kind not in FLAGS and kind != "object")]
    rows = [(kind, FLAGS.get(kind, ""), " · ".join(code(entry.name) for entry in built_in(kind))) for kind in kinds]
    text = page(
        "Names",
        "The built-in names, and their flags. Files in `algos/` and `envs/` add names; `mygym list` has all.",
        table(["kind", "flag", "built in"], rows),
        section("Tasks", task_table()),
    )
    return {"names.md": text}


def task_table() -> str:
    """Return the table of the built-in tasks."""
    rows = []
    for entry in built_in("task"):
        task = find_task(entry.name)
        rows.append(
            (
                f"[{entry.name}](tasks/{entry.name}.md)",
                ", ".join(task.stage_names),
                f"{task.tolerance}, {task.hold} steps",
                f"{task.horizon} steps",
                code(env_id(entry.name)),
            )
        )
    return table(
        ["task", "stages", "success tolerance (m; rad of parts that rotate), hold", "horizon", "environment id"], rows
    )
