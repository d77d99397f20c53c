"""Pages of robots, workspaces and objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docs.generate.markdown import as_yaml, built_in, code, page, picture, section, table
from mygym.registry import Entry
from mygym.robotics.assets import read_mapping
from mygym.robotics.objects import load_object


def pages() -> dict[str, str]:
    """Return the pages of robots, workspaces and objects."""
    return {"robots.md": robots(), "workspaces.md": workspaces(), "objects.md": objects()}


def content_of(entry: Entry) -> dict[str, Any]:
    """Return the content of the YAML file of a component."""
    return dict(read_mapping(Path(entry.load())))


def robots() -> str:
    """Return the page of all built-in robots."""
    return page(
        "Robots",
        picture("robot", "panda"),
        "`mygym list robot` lists them; [your own robot](../your_own_world.md) explains the keys of the files. "
        'Robots of the extra `robots` need `pip install -c constraints.txt -e ".[robots]"`.',
        *(_robot(entry) for entry in built_in("robot")),
    )


def _robot(entry: Entry) -> str:
    content = content_of(entry)
    arms = content.get("arms") or [content]
    joints = [", ".join(code(joint) for joint in _names(arm.get("joints"))) for arm in arms]
    gripper = [f"{100 * arm['gripper']['width']:g} cm" for arm in arms if (arm.get("gripper") or {}).get("width")]
    properties = table(
        ["property", "value"],
        [
            ("model", code(content.get("urdf", ""))),
            *(
                (f"joints of arm {number}" if len(joints) > 1 else "joints", row)
                for number, row in enumerate(joints, 1)
            ),
            ("gripper opens", ", ".join(gripper) or "no gripper"),
            ("cannot", ", ".join(content.get("cannot", ())) or "–"),
        ],
    )
    return section(entry.name, picture("robot", entry.name), entry.help, properties)


def _names(joints: Any) -> list[str]:
    return [joint if isinstance(joint, str) else str(joint.get("name")) for joint in joints or ()]


def workspaces() -> str:
    """Return the page of all built-in workspaces."""
    return page(
        "Workspaces",
        picture("workspace", "table"),
        "`mygym describe workspace NAME` prints a file; [your own workspace](../your_own_world.md) explains the keys.",
        *(_workspace(entry) for entry in built_in("workspace")),
    )


def _workspace(entry: Entry) -> str:
    content = content_of(entry)
    areas = [
        (code(name), *(area.get(corner) for corner in ("low", "high")))
        for name, area in (content.get("areas") or {}).items()
        if isinstance(area, dict)
    ]
    robots = " ".join(code(name) for name in content.get("robots") or ())
    return section(
        entry.name,
        picture("workspace", entry.name),
        entry.help,
        f"Robots: {robots}." if robots else "",
        table(["area", "low, m", "high, m"], areas) if areas else "",
        as_yaml({"fixtures": list(content["fixtures"])}) if content.get("fixtures") else "",
    )


def objects() -> str:
    """Return the page of all built-in objects."""
    rows = []
    for entry in built_in("object"):
        spec = load_object(entry.load())
        size = " × ".join(f"{100 * edge:.1f}" for edge in spec.size)
        width = f"{100 * spec.grasp_width:.1f} cm" if spec.graspable else ""
        rows.append(
            (
                code(entry.name),
                spec.category,
                f"{size} cm",
                f"{spec.mass:.3g} kg",
                f"{spec.friction:g}",
                width,
                entry.help,
            )
        )
    return page(
        "Objects",
        "![All objects with their names and sizes](../images/objects.png)",
        "`mygym list object` prints the same; [your own object](../your_own_world.md) explains the files.",
        table(["object", "category", "size", "mass", "friction", "width in a gripper of 8 cm", "in words"], rows),
    )
