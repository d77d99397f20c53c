"""What a class or function takes: each parameter with its type, default and text, read from signature and docstring."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

REQUIRED = inspect.Parameter.empty
"""In place of a default, where there is none."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a class's constructor or of a function."""

    name: str
    annotation: Any
    """Its type hint; without one the type of its default; `Any` where neither tells."""
    default: Any
    """`REQUIRED` where it must be given."""
    declared_by: Callable[..., Any]
    """The class or function in whose signature it stands."""
    keyword_only: bool = False
    """Whether it cannot be given by its position."""

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is REQUIRED

    @property
    def type_in_words(self) -> str:
        """What may be given, for messages and help."""
        return in_words(self.annotation)

    @property
    def help(self) -> str:
        """Its text in the docstring of whoever declares it."""
        return _texts(self.declared_by).get(self.name, "")


def parameters(owner: Callable[..., Any], leave_out: Iterable[str] = ()) -> dict[str, Parameter]:
    """Named parameters; of a class those of its constructor, where `*args, **kwargs` take the parents' along the MRO.

    What can be given by position comes first, in its order.

    Args:
        owner: A class or a function.
        leave_out: Names that somebody else sets.
    """
    if not inspect.isclass(owner):
        return {p.name: p for p in _declared(owner, owner) if p.name not in leave_out}
    found: dict[str, Parameter] = {}
    for base in owner.__mro__:
        init = base.__dict__.get("__init__")
        if init is None or base is object:
            continue
        for parameter in _declared(base, init):
            if parameter.name != "self" and parameter.name not in leave_out:
                found.setdefault(parameter.name, parameter)
        if not any(one.kind is one.VAR_KEYWORD for one in inspect.signature(init).parameters.values()):
            break
    return dict(sorted(found.items(), key=lambda item: item[1].keyword_only))


def place(owner: Callable[..., Any]) -> str:
    """`file:line` of a class or function, as far as Python knows."""
    try:
        return f"{inspect.getsourcefile(owner)}:{inspect.getsourcelines(owner)[1]}"
    except (OSError, TypeError):
        return f"{getattr(owner, '__module__', '')}.{getattr(owner, '__qualname__', owner)}"


def first_line(owner: object) -> str:
    """The first line of the docstring, of the class's own."""
    return inspect.cleandoc(getattr(owner, "__doc__", None) or "").partition("\n")[0]


def fits(value: Any, hint: Any) -> bool:
    """Whether a value that YAML can hold fits a type hint; what YAML cannot express is left to whoever takes it."""
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
    if plain is type(None):
        return value is None
    if plain is bool:
        return isinstance(value, bool)
    if plain is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if plain is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if plain is str:
        return isinstance(value, str)
    if plain is tuple and options and options[-1] is not ...:
        return isinstance(value, list | tuple) and len(value) == len(options) and all(map(fits, value, options))
    if plain in (list, tuple) or (isinstance(plain, type) and issubclass(list, plain) and plain is not object):
        inner = options[0] if options else Any
        return isinstance(value, list | tuple) and all(fits(item, inner) for item in value)
    if isinstance(plain, type) and issubclass(dict, plain) and plain is not object:
        key, inner = options if len(options) == 2 else (Any, Any)
        return isinstance(value, Mapping) and all(fits(k, key) and fits(v, inner) for k, v in value.items())
    return isinstance(value, plain) if isinstance(plain, type) else callable(value)


def choices(hint: Any) -> list[str]:
    """Texts that a type hint names one by one."""
    if typing.get_origin(hint) is typing.Literal:
        return [one for one in typing.get_args(hint) if isinstance(one, str)]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [name for one in typing.get_args(hint) for name in choices(one)]
    return []


def in_words(hint: Any) -> str:
    """A type hint as a person would say what may be given."""
    names = {"None": "null", "NoneType": "null", "bool": "true or false", "int": "a whole number", "float": "a number",
             "str": "text", "Any": "anything"}  # fmt: skip
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(in_words(one) for one in inner if typing.get_origin(one) is not Callable))
    if origin is typing.Literal:
        return " or ".join(map(str, inner))
    if origin is tuple:
        return f"[{', '.join(map(in_words, inner))}]"
    if origin in (list, dict):
        of = " of " + ": ".join(map(in_words, inner)) if inner and inner[-1] is not Any else ""
        return ("a list" if origin is list else "a mapping") + of
    if origin is type or getattr(origin, "__name__", "") == "Callable":
        return "a name"
    name = str(getattr(hint, "__name__", hint))
    return names.get(name, name)


def _declared(owner: Callable[..., Any], function: Callable[..., Any]) -> Iterator[Parameter]:
    hints = _hints(function)
    for one in inspect.signature(function).parameters.values():
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            without = Any if one.default is one.empty or one.default is None else type(one.default)
            yield Parameter(one.name, hints.get(one.name, without), one.default, owner, one.kind is one.KEYWORD_ONLY)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Type hints, each for itself where one cannot be resolved: it may be imported for type checkers alone."""
    try:
        return typing.get_type_hints(function)
    except Exception:  # noqa: BLE001  (an annotation can raise anything)
        hints: dict[str, Any] = {}
        for name, annotation in getattr(function, "__annotations__", {}).items():
            one = types.SimpleNamespace(__annotations__={name: annotation})
            try:
                hints |= typing.get_type_hints(one, getattr(function, "__globals__", {}))
            except Exception:  # noqa: BLE001
                hints[name] = Any
        return hints


def _texts(owner: Callable[..., Any]) -> dict[str, str]:
    """Parameter → its text, from the docstrings of a class and of its constructor, in any of the usual styles."""
    import docstring_parser

    texts: dict[str, str] = {}
    own = (owner.__doc__, owner.__dict__["__init__"].__doc__) if inspect.isclass(owner) else (owner.__doc__,)
    for doc in own:
        try:
            parsed = docstring_parser.parse(doc or "")
        except docstring_parser.ParseError:
            continue
        texts |= {one.arg_name: " ".join((one.description or "").split()) for one in parsed.params}
    return texts
