"""`decorator`, the base of every `register_KIND`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mygym.errors import RegistryError, bad_value
from mygym.registry.entries import caller
from mygym.registry.registries import registry
from mygym.registry.signatures import first_line

T = TypeVar("T")


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
