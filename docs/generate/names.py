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
    "policy": "--policy",
}
"""Kind → flag that takes its names."""


def pages() -> dict[str, str]:
    """Return the page of names."""
    kinds = [*FLAGS, *(kind for kind in REGISTRIES if kind not in FLAGS and kind != "object")]
    rows = [(kind, code(FLAGS.get(kind, "")), _names(kind)) for kind in kinds]
    rows.insert(len(FLAGS), ("framework", "`--framework`", _frameworks()))
    text = page(
        "Names",
        "The built-in names, and their flags. Files in `algos/` and `envs/` add names; `mygym list` has all.",
        table(["kind", "flag", "built in"], rows),
        section("Tasks", task_table()),
    )
    return {"names.md": text}


def _names(kind: str) -> str:
    """Return the names of a kind, those that need an extra at the end."""
    entries = built_in(kind)
    plain, extra = (
        [code(e.name) for e in entries if bool(e.requires and kind == "robot") == needs] for needs in (0, 1)
    )
    return " · ".join(plain + (["with the extra `robots`: " + " · ".join(extra)] if extra else []))


def _frameworks() -> str:
    jax = [code(entry.name) for entry in built_in("algorithm") if "jax" in entry.frameworks]
    return f"`pytorch` · `jax` for {', '.join(jax)}"


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
