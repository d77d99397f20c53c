"""`EnvSpec`: everything that decides an environment, validated once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from mygym.config import RunConfig
from mygym.config.layers import validated
from mygym.config.loading import as_plain, check_plain
from mygym.config.schema import DEFAULT_ENGINE, EnvConfig

MAX_IMAGE_SIZE = 4096
"""Maximum width and height of images, pixels."""

ORIGIN = "argument"
"""Origin of values in messages."""


class EnvSpec(EnvConfig):
    """Description of an environment, immutable and complete; `RobotEnv` explains the values."""

    robot: str | None = None  # type: ignore[assignment]  # None: the task's
    engine: str = DEFAULT_ENGINE
    goal_env: bool = True
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.99
    render_mode: Literal["human", "rgb_array"] | None = None
    render_width: Annotated[int, Field(ge=1, le=MAX_IMAGE_SIZE)] = 480
    render_height: Annotated[int, Field(ge=1, le=MAX_IMAGE_SIZE)] = 360
    camera: str = "main"

    @classmethod
    def of(cls, arguments: Mapping[str, Any] | EnvSpec) -> EnvSpec:
        """Return the description of an environment with these arguments; those that are None have their defaults.

        Later changes of the caller's objects have no effect on it.

        Args:
            arguments: Arguments of `RobotEnv` by name; or a description, which is returned.

        Raises:
            ConfigError: An argument is unknown, has the wrong type, or is out of its range.
        """
        if isinstance(arguments, EnvSpec):
            return arguments
        values = {name: as_plain(value) for name, value in arguments.items() if value is not None}
        check_plain(values, ORIGIN)
        return validated(cls, values, dict.fromkeys(values, ORIGIN))

    @classmethod
    def of_config(cls, config: RunConfig, engine: str, goal_env: bool, gamma: float) -> EnvSpec:
        """Return the description of the environments of a config with a single variant, which is valid already."""
        shared = {name: getattr(config, name) for name in EnvConfig.model_fields}
        return cls.model_construct(**shared, engine=engine, goal_env=goal_env, gamma=gamma)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `RobotEnv` that are set, as plain data."""
        values = self.model_dump(mode="json", include=self.model_fields_set)
        values["task_params"] = self.task_params.model_dump(mode="json", exclude_none=True)
        return {name: value for name, value in values.items() if value is not None}
