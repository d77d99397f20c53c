"""Read and validate the YAML files of robots, workspaces and objects into frozen dataclasses."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from mygym.config.loading import FastLoader, check_plain, read_yaml
from mygym.config.validation_errors import explained
from mygym.errors import AssetError, ConfigError, bad_value
from mygym.registry.entries import HAS_BULLET

ASSETS = Path(__file__).resolve().parent.parent / "assets"
"""Folder of the built-in descriptions: `robots/`, `workspaces/`, `objects/`."""

MAX_BYTES = 200_000
"""Maximum size of a description; the largest built-in description has 23,000 bytes."""

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
"""The pydantic configuration of every description: `__pydantic_config__ = STRICT`."""


def _number(value: object) -> object:
    if isinstance(value, (bool, str)):  # YAML's `yes` and quoted numbers are mistakes
        raise ValueError("a number")
    return value


def _rotation(quaternion: tuple[float, ...]) -> tuple[float, ...]:
    if not any(quaternion):
        raise ValueError("a quaternion x, y, z, w that is not zero, such as [0, 0, 0, 1]")
    return quaternion


Number = Annotated[float, BeforeValidator(_number)]
Positive = Annotated[Number, Field(gt=0)]
NonNegative = Annotated[Number, Field(ge=0)]
FiniteVector = tuple[Number, Number, Number]
"""Three finite numbers of a YAML file, m unless the field states another unit."""
Quaternion = Annotated[tuple[Number, Number, Number, Number], AfterValidator(_rotation)]
Color = tuple[Number, Number, Number, Number]

Spec = TypeVar("Spec")


def asset_names(kind: str) -> tuple[str, ...]:
    """Return the names of the descriptions in `assets/KIND/` and its subfolders; no file is opened."""
    return tuple(sorted(_files(kind)))


def _files(kind: str) -> dict[str, Path]:
    return {path.stem: path for path in (ASSETS / kind).rglob("*.yaml")}


def find_asset(kind: str, name: str | Path) -> Path:
    """Return the file of a name (`panda`), or the given path if it ends in `.yaml` or `.yml`.

    Raises:
        AssetError: Unknown name or missing file.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise AssetError(bad_value(kind, str(name), "a YAML file", "is not a file"))
        return path.resolve()
    known = _files(kind)
    if str(name) not in known:
        raise AssetError(bad_value(kind.removesuffix("s"), str(name), sorted(known), "is not known"))
    return known[str(name)]


def find_beside(path: Path, name: str) -> Path:
    """Return the file `name` beside the file `path`, or in a package of data; the file need not exist.

    Raises:
        AssetError: The package is not installed.
    """
    beside = path.parent / name
    package, _, inside = name.partition("/")
    if beside.is_file() or package not in ("mygym", "pybullet_data", "example_robot_data"):
        return beside.resolve()
    if package == "mygym":
        return ASSETS / inside
    if package == "pybullet_data":
        if not HAS_BULLET:
            allowed = "a file of yours, or a Python that has PyBullet: 3.11 to 3.13"
            raise AssetError(bad_value("file", name, allowed, "is part of PyBullet, which is not installed"))
        return Path(import_module(package).getDataPath()) / inside
    try:
        installed = distribution("example-robot-data")
    except PackageNotFoundError as error:
        raise AssetError(bad_value("urdf", name, "pip install 'mygym[robots]'", "is not installed")) from error
    return Path(str(installed.locate_file("cmeel.prefix/share/example-robot-data/robots"))) / inside


def read_asset(spec: type[Spec], path: Path) -> Spec:
    """Read a YAML mapping into the dataclass `spec`.

    Raises:
        AssetError: The file is not YAML, or has an unknown, missing or mistyped key.
    """
    text = _read(path)
    try:
        return cast("Spec", _validated(cast("Hashable", spec), text))
    except ConfigError as error:
        raise AssetError(f"{path}: {error}") from error
    except ValidationError as error:
        raise AssetError(f"{path}: {explained(error, of=spec)}") from error


def as_asset(spec: type[Spec], data: Mapping[str, Any]) -> Spec:
    """Return plain data as the dataclass `spec`; raise `AssetError` for an unknown, missing or mistyped key."""
    try:
        return cast("Spec", _adapter(cast("Hashable", spec)).validate_python(data))
    except ValidationError as error:
        raise AssetError(explained(error, of=spec)) from error


def read_mapping(path: Path) -> Mapping[str, Any]:
    """Return the mapping of a YAML file, not validated; it is cached and must not be changed.

    Raises:
        AssetError: The file is not YAML, not a mapping of plain data, or too large.
    """
    text = _read(path)
    try:
        return _parsed(text)
    except ConfigError as error:
        raise AssetError(f"{path}: {error}") from error


def _read(path: Path) -> str:
    try:
        if (size := path.stat().st_size) > MAX_BYTES:
            raise AssetError(f"{path}: {bad_value('size', size, f'at most {MAX_BYTES} bytes', 'is too large')}")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AssetError(f"{path}: {error}") from error


@lru_cache(maxsize=512)
def _validated(spec: Any, text: str) -> Any:
    """Parse and validate; cached, because each environment reads its robot, workspace and objects again."""
    return _adapter(spec).validate_python(_parsed(text))


@lru_cache(maxsize=512)
def _parsed(text: str) -> Mapping[str, Any]:
    """Parse YAML; cached, because several readers take keys from one file."""
    data = read_yaml(text, FastLoader)
    if not isinstance(data, dict):
        raise ConfigError(bad_value("file", type(data).__name__, "a mapping of keys to values"))
    check_plain(data)
    return data


@cache
def _adapter(spec: Any) -> TypeAdapter[Any]:
    """Return the validator of a dataclass; cached, because building it takes longer than many validations."""
    return TypeAdapter(spec)
