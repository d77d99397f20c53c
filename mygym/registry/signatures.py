"""Parameters of classes and functions: type, default and help, read from signature and docstring."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, cast

import numpy as np

from mygym.errors import MygymError, RegistryError, bad_value

REQUIRED = inspect.Parameter.empty
"""Default of a parameter that has none."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a class's constructor or of a function."""

    name: str
    annotation: Any
    """Type hint; if it is missing, the type of the default; if both are missing, `Any`."""
    default: Any
    """Default value; `REQUIRED` if the parameter has no default."""
    declared_by: Callable[..., Any]
    """Class or function whose signature declares it."""
    keyword_only: bool = False
    """Whether it is keyword-only."""

    @property
    def required(self) -> bool:
        """Whether the parameter has no default."""
        return self.default is REQUIRED

    @property
    def type_in_words(self) -> str:
        """Type in words, for messages and help."""
        return in_words(self.annotation)

    @property
    def help(self) -> str:
        """Description in the docstring of the declaring class or function."""
        return _descriptions(self.declared_by).get(self.name, "")


def of_library(owner: Callable[..., Any]) -> bool:
    """Return whether a class or function is of a library of networks and algorithms, or of this package."""
    return owner.__module__.partition(".")[0] in ("mygym", "stable_baselines3", "sb3_contrib", "sbx", "torch")


def parameters(owner: Callable[..., Any], leave_out: Iterable[str] = ()) -> dict[str, Parameter]:
    """Return the named parameters of a function, or of a class's constructor, positional parameters first.

    If a constructor takes `**kwargs`, the parameters of the next class in the MRO follow.
    """
    return {name: parameter for name, parameter in _parameters(owner).items() if name not in leave_out}


@lru_cache(maxsize=1024)  # a run asks for the parameters of its algorithm many times
def _parameters(owner: Callable[..., Any]) -> Mapping[str, Parameter]:
    if not inspect.isclass(owner):
        return {p.name: p for p in _declared(owner, owner)}
    result: dict[str, Parameter] = {}
    for base in constructors(owner):
        for parameter in _declared(base, base.__dict__["__init__"]):
            if parameter.name != "self":
                result.setdefault(parameter.name, parameter)
    return dict(sorted(result.items(), key=lambda item: item[1].keyword_only))


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature; annotations that only type checkers can resolve are allowed, as in Python 3.14."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def constructors(owner: type) -> list[type]:
    """Return the classes whose constructors get the arguments of `owner`: up to the first without `**kwargs`."""
    classes = []
    for base in owner.__mro__:
        init = base.__dict__.get("__init__")
        if init is None or base is object:
            continue
        classes.append(base)
        if not any(p.kind is p.VAR_KEYWORD for p in signature(init).parameters.values()):
            break
    return classes


def source_location(owner: Callable[..., Any]) -> str:
    """Return `file:line` of a class or function, without wrappers; its dotted name if the source is unavailable."""
    owner = inspect.unwrap(owner)
    try:
        return f"{inspect.getsourcefile(owner)}:{inspect.getsourcelines(owner)[1]}"
    except (OSError, TypeError):
        return f"{getattr(owner, '__module__', '')}.{getattr(owner, '__qualname__', owner)}"


def wrong_result(key: str, function: Callable[..., Any], result: Any, allowed: str) -> RegistryError:
    """Return the error for a result of the user's function that is in none of the `allowed` forms."""
    shape = getattr(result, "shape", () if isinstance(result, int | float) else None)
    kind = "None" if result is None else type(result).__name__ + ("" if shape is None else f" of shape {tuple(shape)}")
    return RegistryError(bad_value(f"{key}: result", kind, allowed, f"is not allowed ({source_location(function)})"))


F = TypeVar("F", bound=Callable[..., Any])


def checked_registration(register: F) -> F:
    """Decorator of every `register_KIND`: an argument of a wrong type is a RegistryError."""

    @functools.wraps(register)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(parameters(register), args, strict=False)), **kwargs}
        why = f'is no name: write @{register.__name__}("NAME")' if callable(given.get("name")) else ""
        check_types(register, given, RegistryError, f"{register.__name__}: ", why)
        return register(*args, **kwargs)

    return cast("F", checked)


def check_types(
    owner: Callable[..., Any], values: Mapping[str, Any], error: type[MygymError], prefix: str = "", why: str = ""
) -> None:
    """Check arguments of a function, or of a class's constructor, against its type hints; arrays count as lists.

    Args:
        owner: The function or class.
        values: Name → value; names that are no parameters are left to the call.
        error: Type of the error.
        prefix: Beginning of its message.
        why: Reason in words.

    Raises:
        MygymError: A value does not fit.
    """
    known = parameters(owner)
    for name, value in values.items():
        plain = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
        if name in known and not fits(plain, known[name].annotation):
            raise error(bad_value(f"{prefix}{name}", value, in_words(known[name].annotation, in_python=True), why))


def first_line(owner: object) -> str:
    """Return the first line of a docstring; empty without a docstring."""
    return inspect.cleandoc(getattr(owner, "__doc__", None) or "").partition("\n")[0]


def fits(value: Any, hint: Any) -> bool:
    """Return whether a plain value fits a type hint; True for hints that YAML cannot express."""
    origin = typing.get_origin(hint)
    options = typing.get_args(hint)
    if hint is Any or isinstance(hint, str | typing.TypeVar | typing.ForwardRef):
        return True
    if origin is typing.Annotated:
        return fits(value, options[0])
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, option) for option in options)
    if origin is typing.Literal:
        return value in options
    plain = origin or hint
    if plain is Callable and options and isinstance(options[0], list):
        return _takes(value, len(options[0]))
    if plain in (int, float):
        return isinstance(value, int if plain is int else int | float) and not isinstance(value, bool)
    if plain is tuple and options and options[-1] is not ...:
        return isinstance(value, list | tuple) and len(value) == len(options) and all(map(fits, value, options))
    if plain in (list, tuple) or (isinstance(plain, type) and issubclass(list, plain) and plain is not object):
        inner = options[0] if options else Any
        return isinstance(value, list | tuple) and all(fits(item, inner) for item in value)
    if isinstance(plain, type) and issubclass(dict, plain) and plain is not object:
        key, inner = options if len(options) == 2 else (Any, Any)
        return isinstance(value, Mapping) and all(fits(k, key) and fits(v, inner) for k, v in value.items())
    return isinstance(value, plain) if isinstance(plain, type) else callable(value)


def _takes(function: Any, count: int) -> bool:
    """Return whether an object can be called with a number of arguments; True if it does not show, as of builtins."""
    try:
        signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        return callable(function)
    return True


def is_noise(hint: Any) -> bool:
    """Return whether a type hint is that of SB3's action noise."""
    return "ActionNoise" in str(hint)


def choices(hint: Any) -> list[str]:
    """Return the strings in the `Literal` types of a type hint."""
    if typing.get_origin(hint) is typing.Literal:
        return [option for option in typing.get_args(hint) if isinstance(option, str)]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [name for option in typing.get_args(hint) for name in choices(option)]
    return []


def in_words(hint: Any, in_python: bool = False) -> str:
    """Return a type hint in words for messages, e.g. `a list of a number`; of values in YAML or in Python."""
    names = {"None": "null", "NoneType": "null", "bool": "true or false", "int": "a whole number", "float": "a number",
             "str": "text", "Any": "anything", "Path": "a path"}  # fmt: skip
    if in_python:
        names |= {"None": "None", "NoneType": "None", "bool": "True or False"}
    words = functools.partial(in_words, in_python=in_python)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return words(inner[0])
    if origin in (typing.Union, types.UnionType):
        options = [option for option in inner if in_python or typing.get_origin(option) is not Callable]
        return " or ".join(dict.fromkeys(map(words, options)))
    if origin is typing.Literal:
        return " or ".join(map(str, inner))
    if origin is tuple:
        return f"[{', '.join(map(words, inner))}]"
    if origin in (list, dict, Sequence, Mapping):
        of = " of " + ": ".join(map(words, inner)) if inner and (in_python or inner[-1] is not Any) else ""
        return ("a list" if origin in (list, Sequence) else "a mapping") + of
    if in_python and origin is Callable:
        return "a function" + (f" ({', '.join(map(words, inner[0]))})" if isinstance(inner[0], list) else "")
    if in_python and origin is type:
        return "a class"
    if origin is type or getattr(origin, "__name__", "") == "Callable":
        return "a name"
    name = str(getattr(hint, "__name__", hint))
    return names.get(name, name)


def _declared(owner: Callable[..., Any], function: Callable[..., Any]) -> Iterator[Parameter]:
    hints = _hints(function)
    for p in signature(function).parameters.values():
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            fallback = Any if p.default is p.empty or p.default is None else type(p.default)
            hint = hints.get(p.name, fallback)
            if is_noise(hint):
                hint = hint | float  # configs give the standard deviation
            yield Parameter(p.name, hint, p.default, owner, p.kind is p.KEYWORD_ONLY)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return type hints; a hint that cannot be resolved, e.g. a name for type checkers only, does not affect others."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001  (an annotation can raise anything)
        hints: dict[str, Any] = {}
        for name, annotation in ((p.name, p.annotation) for p in signature(function).parameters.values()):
            if annotation is inspect.Parameter.empty:
                continue
            annotated = types.SimpleNamespace(__annotations__={name: annotation})
            try:
                hints |= typing.get_type_hints(annotated, getattr(function, "__globals__", {}), include_extras=True)
            except Exception:  # noqa: BLE001
                hints[name] = Any
        return hints


def _descriptions(owner: Callable[..., Any]) -> dict[str, str]:
    """Return parameter → description, from the docstrings of a class and its constructor in any common style."""
    import docstring_parser

    descriptions: dict[str, str] = {}
    docs = (owner.__doc__, owner.__dict__["__init__"].__doc__) if inspect.isclass(owner) else (owner.__doc__,)
    for doc in docs:
        try:
            parsed = docstring_parser.parse(doc or "")
        except docstring_parser.ParseError:
            continue
        descriptions |= {p.arg_name: " ".join((p.description or "").split()) for p in parsed.params}
    return descriptions
