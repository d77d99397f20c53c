"""Validation of a URDF tree: numbers, joint types, and links that form a tree."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator

from mygym.errors import AssetError, bad_value

MOVING_JOINT_TYPES = ("revolute", "continuous", "prismatic")
JOINT_TYPES = (*MOVING_JOINT_TYPES, "fixed", "floating", "planar", "spherical")
"""URDF's joint types, and Bullet's `spherical`."""

NUMBER_COUNTS = {
    "origin": {"xyz": 3, "rpy": 3},
    "axis": {"xyz": 3},
    "mass": {"value": 1},
    "inertia": dict.fromkeys(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), 1),
    "limit": dict.fromkeys(("lower", "upper", "effort", "velocity"), 1),
    "mimic": dict.fromkeys(("multiplier", "offset"), 1),
    "box": {"size": 3},
    "cylinder": {"radius": 1, "length": 1},
    "capsule": {"radius": 1, "length": 1},
    "sphere": {"radius": 1},
    "mesh": {"scale": 3},
}
"""Element → attribute → number of its values."""

MAX_NUMBER = 1e6
"""Largest number in a URDF, in SI units; limits may be infinite."""

NOT_NEGATIVE = ("size", "radius", "length", "velocity", "effort")
"""Attributes whose values are at least 0."""

LONGEST_NAME = 200
"""Maximum length of the name of a link or a joint; Bullet truncates long names."""


MOST_MISTAKES = 8
"""Mistakes in one message."""


def check_urdf(root: ET.Element) -> None:
    """Validate the names and numbers of a `<robot>` element, and that its joints connect its links to one tree.

    Raises:
        AssetError: The file has mistakes; one message describes all of one kind.
    """
    mistakes = list(_number_mistakes(root)) or list(_tree_mistakes(root))
    more = f"; and {len(mistakes) - MOST_MISTAKES} more" if len(mistakes) > MOST_MISTAKES else ""
    if mistakes:
        raise AssetError("; ".join(mistakes[:MOST_MISTAKES]) + more)


def _number_mistakes(root: ET.Element) -> Iterator[str]:
    """Describe each name that is too long, each invalid number, and each inertia that lacks a moment."""
    for parent in (*root.findall("link"), *root.findall("joint")):
        if len(parent.get("name", "")) > LONGEST_NAME:
            why = f"is longer than {LONGEST_NAME} characters"
            yield bad_value(f"{parent.tag}: name", parent.get("name", "")[:20] + "…", "a shorter name", why)
        where = f"{parent.tag} {parent.get('name', '')}"
        for element in parent.iter():
            before = f"{where}: {element.tag}"
            problems = [
                problem
                for key, count in NUMBER_COUNTS.get(element.tag, {}).items()
                if (text := element.get(key)) is not None
                and (problem := _number_mistake(f"{before} {key}", text, count, _largest(element.tag)))
            ]
            yield from problems
            if problems:
                continue
            if element.tag == "limit" and float(element.get("lower", 0)) > float(element.get("upper", "inf")):
                given = f"{element.get('lower')} to {element.get('upper')}"
                yield bad_value(before, given, "lower below upper", "is reversed")
            if element.tag == "inertia" and not {"ixx", "iyy", "izz"} <= set(element.keys()):
                yield bad_value(before, element.attrib, "ixx, iyy and izz", "lacks a moment")


def _largest(tag: str) -> float:
    """Return the largest number in an element."""
    return math.inf if tag == "limit" else MAX_NUMBER


def _tree_mistakes(root: ET.Element) -> Iterator[str]:
    """Describe unknown joint types and links, names that are used twice, cycles, and joints without an axis.

    Several root links are described if nothing else is wrong.
    """
    links = [link.get("name", "") for link in root.findall("link")]
    names = [joint.get("name", "") for joint in root.findall("joint")]
    if not links:
        yield bad_value("link", 0, "a <robot> with links", "links are in the file")
    for kind, used in (("link", links), ("joint", names)):
        if "" in used:
            yield bad_value(f"{kind}: name", "", f"a name for every {kind}", "is missing")
        twice = sorted(name for name, count in Counter(used).items() if name and count > 1)
        if twice:
            yield bad_value(kind, ", ".join(twice), f"one {kind} of each name", "is used for several")
    known, parents, is_tree = set(links), {}, True
    for element in root.findall("joint"):
        name, joint_type = element.get("name", ""), element.get("type", "")
        if joint_type not in JOINT_TYPES:
            yield bad_value(f"joint {name}: type", joint_type, JOINT_TYPES)
        for end in ("parent", "child"):
            if link_at(element, end) not in known:
                is_tree = False
                yield bad_value(f"joint {name}: {end}", link_at(element, end), links, "is not a link")
        child = link_at(element, "child")
        if child in parents:
            is_tree = False
            yield bad_value(f"joint {name}: child", child, "one joint for each link", "has two parent joints")
        parents[child] = link_at(element, "parent")
        axis = element.find("axis")
        if joint_type in MOVING_JOINT_TYPES and axis is not None and not any(map(float, axis.get("xyz", "1").split())):
            yield bad_value(f"joint {name}: axis", "0 0 0", "a direction, such as '0 0 1'")
    cycle = _cycle(links, parents) if is_tree else []
    if cycle:
        yield bad_value("joint", " - ".join(cycle), "a tree of links", "is a cycle")
    roots = [link for link in links if link not in parents]
    if is_tree and not cycle and len(roots) > 1 and names:
        yield bad_value("link", ", ".join(roots), "one link without a parent joint", "are not connected by joints")


def _cycle(links: list[str], parents: dict[str, str]) -> list[str]:
    """Return the links of a cycle, the first again at the end; empty for a tree."""
    for link in links:
        ancestors = [link]
        while ancestors[-1] in parents and len(ancestors) <= len(links):
            ancestors.append(parents[ancestors[-1]])
            if ancestors[-1] == link:
                return ancestors
    return []


def link_at(joint: ET.Element, end: str) -> str:
    """Return the link at the `parent` or `child` end of a `<joint>`; empty if it names none."""
    element = joint.find(end)
    return "" if element is None else element.get("link", "")


def _number_mistake(key: str, text: str, count: int, largest: float) -> str:
    """Describe the mistake in the text of an attribute of `count` numbers; empty if it is correct."""
    low = 0.0 if key.endswith(NOT_NEGATIVE) else -largest
    allowed = "a number" if count == 1 else f"{count} numbers"
    try:
        values = [float(word) for word in text.split()]
    except ValueError:
        values = []
    if len(values) != count:
        return bad_value(key, text, allowed)
    if not all(low <= value <= largest for value in values):  # nan is not in any range
        return bad_value(key, text, f"{allowed} from {low:g} to {largest:g}", "is out of range")
    return ""
