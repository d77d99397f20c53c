"""Expansion of xacro files by the package `xacro`."""

from __future__ import annotations

import copy
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from mygym.errors import AssetError, bad_value, error_text
from mygym.models.mesh_lookup import package_folder
from mygym.registry import resolve

UNUSED = ("property", "arg")
"""xacro's elements that change nothing where no `${}` and no `$()` refers to them."""


def has_xacro(root: ET.Element) -> bool:
    """Return whether a tree has elements of xacro."""
    return any("/xacro}" in str(element.tag) for element in root.iter())


def without_unused(root: ET.Element) -> ET.Element | None:
    """Return the tree without properties and arguments to which nothing refers; None if it must be expanded."""
    for element in root.iter():
        tag = str(element.tag)
        if "/xacro}" in tag and tag.rpartition("}")[2] not in UNUSED:
            return None
        texts = () if "/xacro}" in tag else (*element.attrib.values(), element.text or "")
        if any("${" in text or "$(" in text for text in texts):
            return None
    root = copy.deepcopy(root)
    for parent in list(root.iter()):
        for element in [child for child in parent if "/xacro}" in str(child.tag)]:
            parent.remove(element)
    return root


def expand(path: Path, arguments: Sequence[str]) -> ET.Element:
    """Return the tree to which a xacro file expands.

    `$(find PACKAGE)` is looked up in the folders above the file and in the paths of ROS.

    Args:
        path: The file.
        arguments: `NAME:=VALUE` each.

    Raises:
        AssetError: xacro refuses the file.
        RegistryError: The package `xacro` is not installed.
    """
    process_file = resolve("xacro:process_file", f"the xacro file {path}")
    mappings = _Arguments(argument.split(":=", 1) for argument in arguments)
    given = list(mappings)
    try:
        with _packages_of(path):
            text = process_file(str(path), mappings=mappings).toxml()
    except Exception as error:
        allowed = "a xacro file; give arguments as in 'FILE.xacro NAME:=VALUE'"
        raise AssetError(bad_value("robot", str(path), allowed, f"cannot be expanded ({error_text(error)})")) from error
    unknown = next((name for name in given if name not in mappings.declared), None)
    if unknown is not None:
        raise AssetError(bad_value("argument", unknown, sorted(mappings.declared), "is not an argument of the file"))
    root = ET.fromstring(text)  # noqa: S314  robot files that a user names are trusted
    if root.find("link") is None:
        why = "describes no link: it only defines macros for another file"
        raise AssetError(bad_value("robot", str(path), "the xacro file that calls the macros", why))
    return root


class _Arguments(dict[str, str]):
    """Values of arguments, which xacro asks for every `<xacro:arg>` whether it has a value."""

    def __init__(self, pairs: Iterable[Sequence[str]]) -> None:
        super().__init__((name, value) for name, value in pairs)
        self.declared: set[str] = set()

    def __contains__(self, name: object) -> bool:
        self.declared.add(str(name))
        return super().__contains__(name)


@contextmanager
def _packages_of(path: Path) -> Iterator[None]:
    """Let xacro's `$(find PACKAGE)` search around a file: it asks `ament_index_python` of ROS."""

    def share_directory(package: str) -> str:
        folder = package_folder(path, package)
        if folder is None:
            allowed = f"a folder above {path}, or in ROS_PACKAGE_PATH or AMENT_PREFIX_PATH"
            raise AssetError(bad_value("$(find)", package, allowed, "is not found"))
        return str(folder)

    name, inner = "ament_index_python", "ament_index_python.packages"
    packages = ModuleType(inner)
    packages.get_package_share_directory = share_directory  # type: ignore[attr-defined]
    saved = {key: sys.modules.get(key) for key in (name, inner)}
    parent = saved[name] or ModuleType(name)
    sys.modules.update({name: parent, inner: packages})
    try:
        yield
    finally:
        for key, module in saved.items():
            if module is None:
                sys.modules.pop(key, None)
            else:
                sys.modules[key] = module
