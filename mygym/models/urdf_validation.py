"""Validation of a URDF tree: numbers, joint types, and links that form a tree."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

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


def check_numbers(root: ET.Element) -> None:
    """Validate the numeric attributes of a `<robot>` element.

    Raises:
        AssetError: An attribute has invalid numbers or the wrong count of numbers, or an inertia lacks a moment.
    """
    for parent in (*root.findall("link"), *root.findall("joint")):
        if len(parent.get("name", "")) > LONGEST_NAME:
            why = f"is longer than {LONGEST_NAME} characters"
            raise AssetError(bad_value(f"{parent.tag}: name", parent.get("name", "")[:20] + "…", "a shorter name", why))
        where = f"{parent.tag} {parent.get('name', '')}"
        for element in parent.iter():
            for key, count in NUMBER_COUNTS.get(element.tag, {}).items():
                text = element.get(key)
                if text is not None:
                    largest = math.inf if element.tag == "limit" else MAX_NUMBER
                    _check_number(f"{where}: {element.tag} {key}", text, count, largest)
            if element.tag == "limit" and float(element.get("lower", 0)) > float(element.get("upper", "inf")):
                given = f"{element.get('lower')} to {element.get('upper')}"
                raise AssetError(bad_value(f"{where}: limit", given, "lower below upper", "is reversed"))
            if element.tag == "inertia" and not {"ixx", "iyy", "izz"} <= set(element.keys()):
                raise AssetError(bad_value(f"{where}: inertia", element.attrib, "ixx, iyy and izz", "lacks a moment"))


def check_tree(root: ET.Element) -> None:
    """Validate that the joints of a `<robot>` element connect its links to a tree.

    Raises:
        AssetError: Unknown joint type or link, a link with two parents, a cycle, or a moving joint without an axis.
    """
    links, parents = [link.get("name", "") for link in root.findall("link")], {}
    for element in root.findall("joint"):
        name, joint_type = element.get("name", ""), element.get("type", "")
        if joint_type not in JOINT_TYPES:
            raise AssetError(bad_value(f"joint {name}: type", joint_type, JOINT_TYPES))
        for end in ("parent", "child"):
            if link_at(element, end) not in links:
                raise AssetError(bad_value(f"joint {name}: {end}", link_at(element, end), links, "is not a link"))
        child = link_at(element, "child")
        if child in parents:
            raise AssetError(
                bad_value(f"joint {name}: child", child, "one joint for each link", "has two parent joints")
            )
        parents[child] = link_at(element, "parent")
        axis = element.find("axis")
        if joint_type in MOVING_JOINT_TYPES and axis is not None and not any(map(float, axis.get("xyz", "1").split())):
            raise AssetError(bad_value(f"joint {name}: axis", "0 0 0", "a direction, such as '0 0 1'"))
    for link in links:
        ancestors = [link]
        while ancestors[-1] in parents:
            ancestors.append(parents[ancestors[-1]])
            if ancestors[-1] == link:
                raise AssetError(bad_value("joint", " - ".join(ancestors), "a tree of links", "is a cycle"))


def link_at(joint: ET.Element, end: str) -> str:
    """Return the link at the `parent` or `child` end of a `<joint>`; empty if it names none."""
    element = joint.find(end)
    return "" if element is None else element.get("link", "")


def _check_number(key: str, text: str, count: int, largest: float) -> None:
    """Validate the text of an attribute.

    Raises:
        AssetError: It does not hold `count` numbers, or a number is out of its range.
    """
    low = 0.0 if key.endswith(NOT_NEGATIVE) else -largest
    allowed = "a number" if count == 1 else f"{count} numbers"
    try:
        values = [float(word) for word in text.split()]
    except ValueError:
        values = []
    if len(values) != count:
        raise AssetError(bad_value(key, text, allowed))
    if not all(low <= value <= largest for value in values):  # nan is not in any range
        raise AssetError(bad_value(key, text, f"{allowed} from {low:g} to {largest:g}", "is out of range"))
