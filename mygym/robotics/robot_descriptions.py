"""Robots' descriptions in any format as URDF trees: URDF, xacro, MuJoCo's XML, and these in archives.

What is missing or impossible is repaired, and each kind of repair is one finding.
"""

from __future__ import annotations

import copy
import math
import os
import sys
import tarfile
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import IO

import numpy as np

from mygym.errors import AssetError, RegistryError, bad_value, counted, error_text
from mygym.registry import RobotFileName, resolve
from mygym.robotics.files import Stamp, cached_by_file, stamp, temporary_folder
from mygym.robotics.inference.findings import Certainty, Finding
from mygym.robotics.links import complete_inertials, remove_unusable_inertials
from mygym.robotics.mesh_files import MAX_TRIANGLES, MESH_PATH, PACKAGE_PATHS, find_mesh, package_folder, readable_mesh
from mygym.robotics.mjcf import read_mjcf
from mygym.robotics.transforms import pose_matrix, rotation_of_z_to
from mygym.robotics.urdf import (
    MAX_NUMBER,
    check_urdf,
    copy_shapes,
    inertial,
    link_at,
    merge_fixed_joints,
    normalize_axes,
    number_in,
    origin_of,
    read_xml,
    set_origin,
)

MAX_BYTES = 1_000_000_000
"""Maximum size of the files of an archive together."""

MAX_FILES = 20_000
"""Maximum number of files of an archive."""

Member = tuple[str, IO[bytes]]
"""Name and content of a file in an archive."""


def extracted(name: RobotFileName) -> Path:
    """Return the description in an archive, extracted once per process into a temporary folder.

    Raises:
        AssetError: The archive is damaged, too large, has paths outside its folder, or has no or several descriptions.
    """
    folder = _extract(name.file, os.getpid())
    if name.inside:
        path = folder / name.inside
        if path.is_file():
            return path
        inside = [str(file.relative_to(folder)) for file in _descriptions(folder)]
        raise AssetError(f"{name.file}: {bad_value('path inside', name.inside, inside, 'is not a file')}")
    matches = _descriptions(folder)
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise AssetError(bad_value("robot", str(name.file), "an archive with a robot's description", "contains none"))
    allowed = ", ".join(str(name.file / file.relative_to(folder)) for file in matches)
    raise AssetError(bad_value("robot", str(name.file), allowed, f"contains {len(matches)} descriptions: name one"))


def _descriptions(folder: Path) -> list[Path]:
    """Return the descriptions of the kind that comes first: URDF, xacro files that describe a robot, MuJoCo."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__MACOSX" not in path.parts)
    for suffix, tag in ((".urdf", b""), (".xacro", b"<robot"), ((".xml", ".mjcf"), b"<mujoco")):
        matches = [path for path in files if path.name.lower().endswith(suffix) and tag in path.read_bytes()]
        if suffix == ".xacro":  # files without a name define macros for others
            matches = [
                path for path in matches if b"name=" in path.read_bytes().partition(b"<robot")[2].partition(b">")[0]
            ]
        if matches:
            return matches
    return []


@cached_by_file(16)
def _extract(archive: Path, process: int) -> Path:
    number = len(list(temporary_folder(process).iterdir()))
    folder = temporary_folder(process) / f"{number}_{archive.name}"
    total = count = 0
    try:
        with _opened(archive) as members:
            for name, content in members:
                parts = PurePosixPath(name.replace("\\", "/"))
                if parts.is_absolute() or not parts.parts or ".." in parts.parts or ":" in parts.parts[0]:
                    allowed = "an archive whose files lie in its own folder"
                    raise AssetError(bad_value("robot", str(archive), allowed, f"has the path {name!r}"))
                count += 1
                target = folder / parts
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    while block := content.read(1 << 20):
                        total += len(block)
                        if total > MAX_BYTES or count > MAX_FILES:
                            allowed = f"up to {MAX_FILES:,} files of {MAX_BYTES / 1e9:g} GB together"
                            raise AssetError(bad_value("robot", str(archive), allowed, "is larger"))
                        file.write(block)
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, tarfile.TarError) as error:
        why = f"cannot be read ({type(error).__name__}: {error})"
        raise AssetError(bad_value("robot", str(archive), "a zip or tar archive", why)) from error
    folder.mkdir(exist_ok=True)
    return folder


@contextmanager
def _opened(archive: Path) -> Iterator[Iterator[Member]]:
    """Open an archive; its files follow, without links."""
    if archive.name.lower().endswith(".zip"):
        with zipfile.ZipFile(archive) as file:
            yield ((info.filename, file.open(info)) for info in file.infolist() if not info.is_dir())
    else:
        with tarfile.open(archive) as file:
            yield (
                (member.name, content)
                for member in file
                if member.isfile() and (content := file.extractfile(member)) is not None
            )


UNUSED = ("property", "arg")
"""xacro's elements that change nothing where no `${}` and no `$()` refers to them."""


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
    """Return the tree to which a xacro file with arguments `NAME:=VALUE` expands.

    `$(find PACKAGE)` is looked up in the folders above the file and in the paths of ROS.

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


NAMES_SHOWN = 6
"""Links, joints or meshes that a finding names."""

THIN, THICK = 0.01, 0.04
"""m: radii of the capsules in place of missing shapes."""

SHAPE_KEYS = {
    "box": {"size"},
    "sphere": {"radius"},
    "cylinder": {"radius", "length"},
    "capsule": {"radius", "length"},
    "mesh": {"filename"},
}
"""Shape → the attributes that it needs."""

DAMPING_SHARE = 0.25
"""Share of a joint's torque that damping takes at its largest velocity, where the file's would take more than all."""

ROUGHLY = 0.15
"""Radius of such a capsule as a share of its length."""


@dataclass(frozen=True)
class RobotFile:
    """A robot's description as a URDF tree."""

    root: ET.Element
    """`<robot>`, with absolute names of mesh files that Bullet reads."""
    repairs: tuple[Finding, ...]
    """One finding for each kind of repair and omission."""
    meshes: tuple[tuple[Path, Stamp], ...] = ()
    """Its mesh files, as they were when it was read."""


def read_robot(name: str | Path) -> RobotFile:
    """Read and validate a robot's description, with repairs of missing and impossible values.

    Args:
        name: A file, a file in an archive, or a xacro file with arguments; see `RobotFileName`.

    Raises:
        AssetError: The file does not exist or cannot be read, or has mistakes that cannot be repaired.
        RegistryError: A package that the format needs is not installed.
    """
    file = _current(name)
    return RobotFile(copy.deepcopy(file.root), file.repairs, file.meshes)


def robot_stamps(name: str | Path) -> tuple[Stamp, ...]:
    """Return a value that changes with a robot's description and with its mesh files; raise as `read_robot` does."""
    meshes = _current(name).meshes
    return stamp(RobotFileName.parse(name).absolute().file), *(at for _, at in meshes)


def _current(name: str | Path) -> RobotFile:
    """Return a robot's description from the cache, unless the file or one of its meshes has changed."""
    source = RobotFileName.parse(name).absolute()
    try:
        source.file.stat()
    except OSError as error:
        raise AssetError(bad_value("urdf", str(source.file), "an existing file", "is not a file")) from error
    folders = tuple(os.environ.get(variable, "") for variable in (MESH_PATH, *PACKAGE_PATHS))
    key = source, os.getpid(), stamp(source.file), folders
    file = _read(*key)
    if any(stamp(mesh) != at for mesh, at in file.meshes):
        _read.cache_clear()
        file = _read(*key)
    return file


@lru_cache(maxsize=64)
def _read(source: RobotFileName, process: int, stamped: Stamp, folders: tuple[str, ...]) -> RobotFile:
    path = extracted(source) if source.is_archive else source.file
    root, repairs = _tree(path, source.arguments)
    meshes: dict[Path, Stamp] = {}
    try:
        if root.tag != "robot":
            raise AssetError(f"not a URDF file: it begins with <{root.tag}>, not with <robot>")
        repairs += [*_limits(root), *_damping(root), *_loose_ends(root), *_unknown_shapes(root)]
        _complete_materials(root)
        remove_unusable_inertials(root)
        check_urdf(root)
        normalize_axes(root)
        repairs += _Meshes(path, root, meshes).resolve()
        repairs += _undrawn(root)
        repairs += _inertials(root)
    except AssetError as error:
        raise AssetError(f"{source.file / source.inside if source.inside else source.file}: {error}") from error
    return RobotFile(root, tuple(repairs), tuple(meshes.items()))


def _tree(path: Path, arguments: Sequence[str]) -> tuple[ET.Element, list[Finding]]:
    """Return the tree of a file of any format, and a finding for each omission."""
    root = read_xml(path)
    if root.tag.endswith("}robot"):  # a default namespace
        space = root.tag.removesuffix("robot")
        for element in root.iter():
            element.tag = str(element.tag).removeprefix(space)
    if root.tag == "mujoco":
        return read_mjcf(path)
    if arguments or any("/xacro}" in str(element.tag) for element in root.iter()):
        plain = None if arguments else without_unused(root)
        return (expand(path, arguments) if plain is None else plain), []
    return root, []


def _named(names: Sequence[str]) -> str:
    """Return names in a sentence; the last are counted."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def _finding(text: str, names: Sequence[str], after: str = "", certainty: Certainty = "guess") -> Iterator[Finding]:
    """Yield a finding about names, which follow its text; none without names."""
    if names:
        yield Finding(f"{text} {_named(names)}{after}", certainty=certainty)


def _limits(root: ET.Element) -> Iterator[Finding]:
    """Remove limits that are NaN, beyond `MAX_NUMBER` or negative for efforts and velocities, and swap reversed limits.

    One missing end of a range is 0, as in URDF: engines would read it as no limit, or as none of both.
    """
    unlimited, swapped, completed = [], [], []
    for joint in root.findall("joint"):
        limit = joint.find("limit")
        if limit is None:
            continue
        if ("lower" in limit.attrib) != ("upper" in limit.attrib):
            limit.attrib.update({"lower": "0", "upper": "0"} | limit.attrib)
            completed.append(joint.get("name", ""))
        for key in ("effort", "velocity", "lower", "upper"):
            number = number_in(limit.get(key))
            is_negative = key in ("effort", "velocity") and number < 0
            if is_negative or math.isnan(number) or MAX_NUMBER < abs(number) < math.inf:  # SDF's default is 1e16
                del limit.attrib[key]
                unlimited.append(f"{key} of {joint.get('name', '')}")
        lower, upper = limit.get("lower"), limit.get("upper")
        if lower is not None and upper is not None and number_in(lower) > number_in(upper):
            limit.attrib.update(lower=upper, upper=lower)
            swapped.append(joint.get("name", ""))
    yield from _finding("limits that are negative, endless or no number mean no limit:", unlimited, certainty="likely")
    yield from _finding("a range with one end begins or ends at 0, as in URDF:", completed, certainty="likely")
    yield from _finding("a lower limit above the upper is swapped with it:", swapped, certainty="likely")


def _damping(root: ET.Element) -> Iterator[Finding]:
    """Reduce damping that takes more than a joint's torque before the joint is at its largest velocity, in place.

    Besides being impossible, it makes the simulation of light wrists unstable.
    """
    reduced = []
    for joint in root.findall("joint"):
        dynamics, limit = joint.find("dynamics"), joint.find("limit")
        if dynamics is None or limit is None:
            continue
        damping, effort, velocity = (
            number_in(element.get(key))
            for element, key in ((dynamics, "damping"), (limit, "effort"), (limit, "velocity"))
        )
        if effort > 0 and damping * velocity > effort:
            dynamics.set("damping", repr(DAMPING_SHARE * effort / velocity))
            reduced.append(joint.get("name", ""))
    yield from _finding("damping that no motor overcomes at full speed is reduced:", reduced)


def _unknown_shapes(root: ET.Element) -> Iterator[Finding]:
    """Remove visuals and collisions without a shape that Bullet knows, in place."""
    names = []
    for link in root.findall("link"):
        for shape in [*link.findall("visual"), *link.findall("collision")]:
            kinds = [element.tag for element in shape.findall("geometry/*")]
            element = shape.find(f"geometry/{kinds[0]}") if kinds else None
            if element is None or not SHAPE_KEYS.get(element.tag, {"?"}) <= set(element.keys()):
                link.remove(shape)
                names.append(f"{link.get('name', '')} ({', '.join(kinds) or 'empty'})")
    yield from _finding("shapes that are incomplete or of another kind are left out:", names)


def _complete_materials(root: ET.Element) -> None:
    """Name the materials without a name, and complete colours of three numbers, in place: Bullet refuses them."""
    for number, material in enumerate(root.iter("material")):
        material.set("name", material.get("name") or f"material_{number}")
        for color in material.findall("color"):
            words = color.get("rgba", "").split()
            if len(words) == 3:
                color.set("rgba", " ".join([*words, "1"]))
            elif len(words) != 4:
                material.remove(color)


def _loose_ends(root: ET.Element) -> Iterator[Finding]:
    """Open closed loops and remove links that no joint connects, in place."""
    children: set[str] = set()
    closing = []
    for joint in root.findall("joint"):
        child = link_at(joint, "child")
        if child in children:
            closing.append(joint.get("name", ""))
            root.remove(joint)
        children.add(child)
    yield from _finding("closed loops are left open, without the joints", closing)
    joined = {link_at(joint, end) for joint in root.findall("joint") for end in ("parent", "child")}
    strays = [link for link in root.findall("link") if joined and link.get("name", "") not in joined]
    for link in strays:
        root.remove(link)
    yield from _finding("links that no joint connects are left out:", [link.get("name", "") for link in strays])


def _undrawn(root: ET.Element) -> Iterator[Finding]:
    """Draw the collisions of bodies without a visual, in place."""
    merged = copy.deepcopy(root)
    placed = merge_fixed_joints(merged)
    drawn = {link.get("name", "") for link in merged.findall("link") if link.find("visual") is not None}
    bare = [link for link in root.findall("link") if placed[link.get("name", "")][0] not in drawn]
    bare = [link for link in bare if link.find("collision") is not None]
    for link in bare:
        copy_shapes(link, "collision", "visual")
    names = [link.get("name", "") for link in bare]
    yield from _finding("collision shapes are drawn, because the file has no visuals for", names, certainty="likely")


def _inertials(root: ET.Element) -> Iterator[Finding]:
    estimated, adjusted = complete_inertials(root)
    text = (
        f"mass or inertia of {counted(len(estimated), 'link')} is estimated from its shapes, because the file has none:"
    )
    yield from _finding(text, estimated)
    yield from _finding("impossible moments of inertia are replaced by the nearest possible:", adjusted)


@dataclass(frozen=True)
class _Meshes:
    """The mesh files of a robot's description."""

    path: Path
    root: ET.Element
    files: dict[Path, Stamp]
    """Filled with the files of meshes, as they are when they are read."""
    missing: dict[str, None] = field(default_factory=dict)
    """File names of meshes that do not exist."""
    unreadable: dict[str, None] = field(default_factory=dict)
    """Why meshes cannot be read."""
    simplified: dict[str, None] = field(default_factory=dict)
    """File names of meshes with too many triangles."""

    def resolve(self) -> Iterator[Finding]:
        """Replace the names of meshes by files that Bullet reads, and shapes without a file by others, in place.

        Refuse a mesh of a collision that cannot be read, if its link has no other shape.
        """
        if not any(self.root.find(f"link/{kind}") is not None for kind in ("visual", "collision")):
            links = self.root.findall("link")
            for link in links:
                self._add_capsule(link)
            text = f"capsules are the shapes of {counted(len(links), 'link')}, because the file has no shapes:"
            yield from _finding(text, [link.get("name", "") for link in links])
        lost: dict[str, list[ET.Element]] = {"visual": [], "collision": []}
        for link in self.root.findall("link"):
            for kind, links in lost.items():
                for shape in link.findall(kind):
                    if [mesh for mesh in shape.iter("mesh") if not self._is_replaced(mesh, shape)]:
                        link.remove(shape)
                        links.append(link)
        bare = [link for link in lost["collision"] if link.find("collision") is None and link.find("visual") is None]
        if bare and self.unreadable:
            raise AssetError("; ".join(self.unreadable))
        where = [f"not found: {_named([*self.missing])}; {MESH_PATH} may name their folder"] if self.missing else []
        reasons = [*where, *self.unreadable]
        reason = f" ({'; '.join(reasons)})" if reasons else ""
        replaced = yield from self._collisions(list(dict.fromkeys(lost["collision"])), reason)
        undrawn = list(dict.fromkeys(lost["visual"]))
        for link in undrawn:
            if link.find("visual") is None:
                copy_shapes(link, "collision", "visual")
        names = [name for link in undrawn if (name := link.get("name", "")) not in replaced]
        yield from _finding("collision shapes are drawn in place of visual meshes:", names, reason)
        text = f"meshes of more than {MAX_TRIANGLES:,} triangles are simplified:"
        yield from _finding(text, list(self.simplified))

    def _is_replaced(self, mesh: ET.Element, shape: ET.Element) -> bool:
        """Set the file of a mesh of a shape; return whether it exists and can be read."""
        name = mesh.get("filename", "")
        file = find_mesh(self.path, name)
        if file is None:
            self.missing[name.replace("\\", "/").rpartition("/")[2]] = None
            return False
        self.files[file] = stamp(file)
        try:
            readable = readable_mesh(file)
        except (AssetError, RegistryError) as error:
            self.unreadable[str(error)] = None
            return False
        if readable.is_simplified:
            self.simplified[file.name] = None
        if readable.color and shape.tag == "visual" and shape.find("material") is None:
            ET.SubElement(ET.SubElement(shape, "material", name=file.name), "color", rgba=readable.color)
        mesh.set("filename", str(readable.file))
        return True

    def _collisions(self, links: list[ET.Element], reason: str) -> Generator[Finding, None, list[str]]:
        """Give links whose collisions are lost their visual shapes, or a capsule; return the links with a capsule."""
        shown: list[str] = []
        rough: list[str] = []
        for link in links:
            if link.find("collision") is not None:
                continue
            copy_shapes(link, "visual", "collision")
            (rough if link.find("collision") is None else shown).append(link.get("name", ""))
            if link.find("collision") is None:
                self._add_capsule(link)
        yield from _finding("visual shapes collide in place of collision meshes:", shown, reason)
        yield from _finding(f"capsules are the shapes of {counted(len(rough), 'link')} without meshes:", rough, reason)
        return rough

    def _add_capsule(self, link: ET.Element) -> None:
        """Add a capsule to the next joints, or to the link's end, as collision."""
        ends = [
            origin_of(joint)[:3, 3]
            for joint in self.root.findall("joint")
            if link_at(joint, "parent") == link.get("name")
        ]
        end = np.mean(ends, axis=0) if ends else 2 * inertial(link)[1]  # as far beyond the centre of mass as before it
        length = float(np.linalg.norm(end))
        radius = min(max(ROUGHLY * length, THIN), THICK)
        collision = ET.SubElement(link, "collision")
        geometry = ET.SubElement(collision, "geometry")
        if length <= 2 * radius:
            ET.SubElement(geometry, "sphere", radius=repr(radius))
        else:
            ET.SubElement(geometry, "capsule", radius=repr(radius), length=repr(length - 2 * radius))
        set_origin(collision, pose_matrix(end / 2, rotation_of_z_to(end / length) if length else np.eye(3)))
