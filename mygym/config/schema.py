"""The schema of a run's config: one for files, flags and the Python API."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Finite = Annotated[float, Field(allow_inf_nan=False)]
Corner = Annotated[tuple[Finite, Finite, Finite], Field(strict=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Color = Annotated[tuple[Share, Share, Share, Share], Field(strict=False)]


class Section(BaseModel):
    """Base of every part: unknown keys are errors, values do not change once set."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Box(Section):
    """An axis-aligned box in the world frame, corners in metres; the workspace's own corner where one is not said."""

    low: Corner | None = None
    high: Corner | None = None

    @field_validator("high")
    @classmethod
    def _above(cls, high: Corner | None, info: Any) -> Corner | None:
        low = info.data.get("low")
        if low is not None and high is not None and any(h < lo for h, lo in zip(high, low, strict=True)):
            raise ValueError(f"must not be below low {list(low)}")
        return high


class Distractor(Section):
    """An object that the task is not about: it lies in the way, or moves to and fro on a line. A name alone will do."""

    object: str = Field(description="name of the object")
    axis: Corner = Field((0.0, 1.0, 0.0), description="direction of its way, in the world frame")
    speed: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="m/s; 0: it lies still")
    range: Annotated[float, Field(gt=0, le=1)] = Field(0.1, description="m to either side of where it is put")

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, said: Any) -> Any:
        return {"object": said} if isinstance(said, str) else said

    @field_validator("axis")
    @classmethod
    def _points_somewhere(cls, axis: Corner) -> Corner:
        if not any(axis):
            raise ValueError("a direction: three numbers that are not all 0")
        return axis


class TaskParams(Section):
    """Numbers of the task; None keeps the task's own."""

    tolerance: Annotated[float, Field(gt=0, le=1)] | None = Field(None, description="m within which the goal counts")
    hold: Annotated[int, Field(ge=1, le=1000)] | None = Field(None, description="steps that success must last")
    horizon: Annotated[int, Field(ge=1, le=100_000)] | None = Field(None, description="steps until truncation")
    stages_done: Annotated[float, Field(ge=0)] | None = Field(
        None, description="stages that the scripted expert has done when an episode begins; 1.5: half of the second too"
    )
    object: str | None = Field(None, description="name of the object that the task acts on")
    objects: dict[str, str] = Field(default_factory=dict, description="role → name, where the task has several objects")
    distractors: list[Distractor] | None = Field(
        None, description="objects that lie in the way (names), or move: {object, axis, speed in m/s, range in m}"
    )
    rotation: Annotated[tuple[Finite, Finite], Field(strict=False)] | None = Field(
        None, description="rad: lowest and highest yaw with which objects are put down"
    )
    colors: dict[str, Color] = Field(default_factory=dict, description="role → red, green, blue, opacity in [0, 1]")
    areas: dict[str, Box] = Field(
        default_factory=dict, description="boxes that goals and objects are drawn from, in place of the workspace's"
    )

    @field_validator("rotation")
    @classmethod
    def _in_order(cls, rotation: tuple[float, float] | None) -> tuple[float, float] | None:
        if rotation is not None and rotation[0] > rotation[1]:
            raise ValueError(f"must not end below where it begins, {rotation[0]}")
        return rotation


class EvalParams(Section):
    """Evaluation during training, in environments of its own."""

    every: Annotated[int, Field(ge=1)] = Field(
        10_000, description="env steps between evaluations; each waits for a rollout to end"
    )
    episodes: Annotated[int, Field(ge=1, le=100_000)] = Field(50, description="episodes of each")
    test_episodes: Annotated[int, Field(ge=0, le=100_000)] = Field(
        0, description="episodes of each with seeds that choose nothing (test curve); 0: no test curve"
    )
    final_episodes: Annotated[int, Field(ge=1, le=100_000)] = Field(
        100, description="fresh episodes that judge model.zip"
    )


class CheckpointParams(Section):
    """Periodic checkpoints."""

    every: Annotated[int, Field(ge=1)] = Field(
        50_000, description="env steps between checkpoints; each waits for a rollout to end"
    )
    keep: Annotated[int, Field(ge=1)] = Field(3, description="how many of the newest stay")


class VideoParams(Section):
    """The film of the final policy, and those of its failures."""

    episodes: Annotated[int, Field(ge=0, le=1000)] = Field(4, description="episodes in it; 0 makes no films at all")
    width: Annotated[int, Field(ge=16, le=4096, multiple_of=2)] = 320
    height: Annotated[int, Field(ge=16, le=4096, multiple_of=2)] = 240
    camera: str = Field("main", description="a camera of the workspace")


class RunConfig(Section):
    """Everything that shapes a run. Defaults here are the lowest layer: algorithm, task, file, flags come over them."""

    robot: str = Field("panda", description="the arm")
    task: str | list[str] | list[dict[str, Any]] = Field(
        "reach", description="a name, letters such as AGMDW, a list of stages, or a list of sub-tasks"
    )
    workspace: str | None = Field(None, description="what the arm stands in (default: the task's own)")
    control: str = Field("ee_delta", description="what an action means")
    reward: str = Field("sparse", description="name of a registered reward")
    observations: Annotated[list[str], Field(min_length=1)] | None = Field(
        None, description="names of what is observed, of mygym list observation (default: what the task needs)"
    )
    spaces: Literal["own", "shared"] = Field("own", description="what the task needs, or the same for all tasks")
    task_params: TaskParams = Field(TaskParams(), description="numbers of the task")
    randomize: dict[str, Any] = Field(
        default_factory=dict, description="randomizer → [low, high], a number, or true: what differs between episodes"
    )
    algo: str = Field("sac", description="keyword of the algorithm")
    framework: str = Field("pytorch", description="implementation of the algorithm")
    algo_params: dict[str, Any] = Field(default_factory=dict, description="the algorithm's constructor arguments")
    imports: list[str] = Field(default_factory=list, description="modules of yours that register things: --import")
    training_params: dict[str, Any] = Field(
        default_factory=dict, description="of an algorithm that is a Runner: how long and how often its loop does what"
    )
    strategy: str = Field("standard", description="what trains next; several are joined by +")
    strategy_params: dict[str, Any] = Field(
        default_factory=dict, description="the strategy's constructor arguments; of several, by name"
    )
    engine: Literal["pybullet"] = Field("pybullet", description="physics")
    her: bool | None = Field(None, description="hindsight replay (default: where it applies)")
    normalize: bool = Field(False, description="normalise observations by running mean and variance")
    steps: Annotated[int, Field(ge=1)] = Field(100_000, description="env steps to train")
    n_envs: Annotated[int, Field(ge=1, le=1024)] = Field(1, description="training environments")
    subprocesses: bool = Field(False, description="a worker process for each training environment")
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(0, description="seed of everything random")
    stop_at_success: Annotated[float, Field(gt=0, le=1)] | None = Field(
        0.98, description="stop when two evaluations in a row are at least this good; null: never"
    )
    eval: EvalParams = Field(EvalParams(), description="evaluation during training")
    checkpoint: CheckpointParams = Field(CheckpointParams(), description="periodic checkpoints")
    video: VideoParams = Field(VideoParams(), description="film of the final policy")
    tensorboard: bool = Field(True, description="write TensorBoard logs")
    device: str = Field("cpu", description="device of the networks")
    threads: Annotated[int, Field(ge=1, le=1024)] = Field(1, description="threads that the networks compute with")
    logdir: str = Field("runs", description="folder of all runs")
    strict: bool = Field(False, description="refuse every value left to a default")

    @field_validator("observations")
    @classmethod
    def _not_twice(cls, observations: list[str] | None) -> list[str] | None:
        for name in observations or ():
            if (observations or []).count(name) > 1:
                raise ValueError(f"each name once, not {name} twice")
        return observations

    @field_validator("device")
    @classmethod
    def _can_train(cls, device: str) -> str:
        if not re.fullmatch(r"(cpu|cuda|mps|xpu)(:[0-9]{1,2})?", device):
            raise ValueError("cpu, or cuda, mps or xpu where the framework has it; with :1 the second of several")
        return device


NOT_SHAPING = frozenset({"seed", "imports", "logdir", "eval", "checkpoint", "video", "tensorboard", "strict"})
"""Top-level keys that do not change what a run learns (`config_hash` leaves them out)."""

LATER: dict[str, dict[str, str]] = {"engine": {"fused": "the fused engine"}}
"""Values that the design names and this version does not have: refused with a word on it."""
