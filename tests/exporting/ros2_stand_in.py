"""Stand-in of the parts of ROS 2 that scaffolded nodes use: topics within this process, and a clock that tests set."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Message:
    """A message of any type: its fields are attributes."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


class Node:
    """A node; `spin_once` calls its timers."""

    seconds = 100.0
    """Time of the clock."""

    def __init__(self, name: str) -> None:
        self.name, self.warnings = name, list[str]()
        self.handlers: dict[str, Callable[[Any], None]] = {}
        self.published: dict[str, list[Any]] = defaultdict(list)
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.parameters: dict[str, Any] = {}

    def declare_parameter(self, name: str, value: Any) -> Any:
        """Return a parameter with its default."""
        return SimpleNamespace(value=self.parameters.setdefault(name, value))

    def create_subscription(self, kind: type, topic: str, handler: Callable[[Any], None], depth: int) -> None:
        """Let a function handle the messages of a topic."""
        assert issubclass(kind, Message)
        self.handlers[topic] = handler

    def create_publisher(self, kind: type, topic: str, depth: int) -> Any:
        """Return a publisher, which stores its messages."""

        def publish(message: Any) -> None:
            assert isinstance(message, kind)
            self.published[topic].append(message)

        return SimpleNamespace(publish=publish)

    def create_timer(self, period: float, function: Callable[[], None]) -> None:
        """Store a timer."""
        self.timers.append((period, function))

    def get_clock(self) -> Any:
        """Return the clock."""
        return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=round(self.seconds * 1e9)))

    def get_logger(self) -> Any:
        """Return the logger, which stores its warnings."""
        return SimpleNamespace(warning=self.warnings.append)

    def receive(self, topic: str, **fields: Any) -> None:
        """Receive a message."""
        self.handlers[topic](Message(**fields))

    def spin_once(self) -> None:
        """Let one period pass."""
        ((period, function),) = self.timers
        self.seconds += period
        function()


def install(patch: pytest.MonkeyPatch) -> None:
    """Make the modules importable."""
    messages = {
        "builtin_interfaces.msg": ["Duration"],
        "sensor_msgs.msg": ["JointState"],
        "std_msgs.msg": ["Bool", "Float64MultiArray"],
        "trajectory_msgs.msg": ["JointTrajectory", "JointTrajectoryPoint"],
    }
    modules = {"rclpy": {}, "rclpy.node": {"Node": Node}}
    modules |= {name: {kind: type(kind, (Message,), {}) for kind in kinds} for name, kinds in messages.items()}
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        patch.setitem(sys.modules, name, module)
        if "." in name and name.rpartition(".")[0] not in modules:
            patch.setitem(sys.modules, name.rpartition(".")[0], ModuleType(name.rpartition(".")[0]))
