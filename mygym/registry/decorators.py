"""`decorator`, the base of every `register_KIND`, and `check_hooks` for kinds whose classes override methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from mygym.errors import RegistryError, bad_value
from mygym.registry.entries import caller
from mygym.registry.registries import registry
from mygym.registry.signatures import first_line, source_location

T = TypeVar("T")
C = TypeVar("C", bound=type)


def decorator(
    kind: str,
    name: str,
    *,
    aliases: Sequence[str] = (),
    build: Callable[[Any], Any] | None = None,
    check: Callable[[Any], bool] = callable,
    allowed: str = "a class or a function",
    help: str = "",
    override: bool = False,
    framework: str | Callable[[Any], str | None] | None = None,
) -> Callable[[T], T]:
    """Return a decorator that registers a component under `name`; the base of every `register_KIND`.

    Args:
        kind: Kind of component.
        name: Name in configs and flags.
        aliases: Other names for the same component.
        build: Builds the registered object from the decorated object; None: register the decorated object itself.
        check: Returns whether the decorated object has the right type.
        allowed: Type that `check` accepts, for the message.
        help: One line for listings; by default the first line of the docstring.
        override: Replace a component of the same name.
        framework: Framework of the component, or a function that returns it for the decorated object; None for a
            component that is independent of frameworks.

    Raises:
        RegistryError: When the decorator is applied: `check` fails, or the name is taken or is not an identifier.
    """
    origin = caller()

    def register(component: T) -> T:
        if not check(component):
            why = f"decorates an object of type {type(component).__name__} ({origin})"
            raise RegistryError(bad_value(f"register_{kind}", name, allowed, why))
        target = component if build is None else build(component)
        component_framework = framework(component) if callable(framework) else framework
        text = help or first_line(component)
        registry(kind).register(name, target, text, origin, override, framework=component_framework, aliases=aliases)
        return component

    return register


def check_hooks(kind: str, base: type, replaced: Mapping[str, str]) -> Callable[[C], C]:
    """Return a `build` for `decorator` that checks the methods of a subclass of `base`, and returns the subclass.

    Args:
        kind: Kind of component.
        base: Class whose public methods mygym calls.
        replaced: Method of other libraries, which mygym never calls → methods of `base` that replace it, joined by
            ` or `, or words. A class that also defines a replacement may use the method as a helper.

    Raises:
        RegistryError: When `build` is called: a method takes other parameters than mygym passes, or is never called.
    """

    def check(cls: C) -> C:
        for name, replacement in replaced.items():
            method, known = inspect.getattr_static(cls, name, None), replacement.split(" or ")
            if method is not None and all(getattr(cls, hook, None) is getattr(base, hook, None) for hook in known):
                signatures = [_call(getattr(base, hook)) for hook in known if hasattr(base, hook)]
                why = f"is a method of {cls.__name__} that is never called ({source_location(method)})"
                raise RegistryError(bad_value(f"register_{kind}", name, " or ".join(signatures) or replacement, why))
        for name, method in inspect.getmembers_static(cls, inspect.isfunction):
            hook = inspect.getattr_static(base, name, None)
            if inspect.isfunction(hook) and method is not hook and not name.startswith("_"):
                _check_signature(kind, base, cls, method, hook)
        return cls

    return check


def _check_signature(kind: str, base: type, cls: type, method: Callable[..., Any], hook: Callable[..., Any]) -> None:
    """Check that a method accepts the parameters with which mygym calls the method `hook` of the base class.

    Raises:
        RegistryError: It does not.
    """
    passed, taken = inspect.signature(hook).parameters, inspect.signature(method)
    try:
        taken.bind(*(p for p in passed.values() if p.default is p.empty))
    except TypeError:
        attributes = [f"self.{name}" for name in taken.parameters if name in base.__annotations__]
        allowed = _call(hook) + (f", with {', '.join(attributes)}" if attributes else "")
        why = f"takes other parameters than mygym passes to {cls.__name__} ({source_location(method)})"
        raise RegistryError(bad_value(f"register_{kind}", _call(method), allowed, why)) from None


def _call(function: Callable[..., Any]) -> str:
    """Return the name of a function with the names of its parameters, e.g. `prepare_model(self)`."""
    return f"{function.__name__}({', '.join(inspect.signature(function).parameters)})"
