"""Schema of a run's config, shared by files, flags and the Python API."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Finite = Annotated[float, Field(allow_inf_nan=False)]
Corner = Annotated[tuple[Finite, Finite, Finite], Field(strict=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Color = Annotated[tuple[Share, Share, Share, Share], Field(strict=False)]


class Section(BaseModel):
    """Base class of all sections: immutable, unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Box(Section):
    """Axis-aligned box in the world frame, corners in metres; a missing corner is taken from the workspace."""

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
    """Object that the task does not use; it lies in the way, or moves back and forth on a line. May be just a name."""

    object: str = Field(description="name of the object")
    axis: Corner = Field((0.0, 1.0, 0.0), description="direction of its motion, in the world frame")
    speed: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="m/s; 0: it does not move")
    range: Annotated[float, Field(gt=0, le=1)] = Field(0.1, description="m to either side of its starting position")

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"object": value} if isinstance(value, str) else value

    @field_validator("axis")
    @classmethod
    def _not_zero(cls, axis: Corner) -> Corner:
        if not any(axis):
            raise ValueError("a direction: three numbers that are not all 0")
        return axis


class TaskParams(Section):
    """Parameters of the task; None keeps the default of the task."""

    tolerance: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="m from the goal that count as success"
    )
    hold: Annotated[int, Field(ge=1, le=1000)] | None = Field(None, description="steps for which success must last")
    horizon: Annotated[int, Field(ge=1, le=100_000)] | None = Field(None, description="steps until truncation")
    stages_done: Annotated[float, Field(ge=0)] | None = Field(
        None,
        description="stages that the scripted expert completes before an episode starts; 1.5: and half of the second",
    )
    starts: dict[Literal["at_object", "in_hand"], Share] | None = Field(
        None,
        description="share of training episodes that start at the object or with it in the hand: {in_hand: 0.3}",
    )
    goals_on_surface: Share | None = Field(
        None, description="share of goals on the surface, of tasks whose goals are in the air"
    )
    object: str | None = Field(None, description="name of the object that the task acts on")
    objects: dict[str, str] = Field(default_factory=dict, description="role → name, if the task has several objects")
    distractors: list[Distractor] | None = Field(
        None, description="objects that lie in the way (names), or move: {object, axis, speed in m/s, range in m}"
    )
    rotation: Annotated[tuple[Finite, Finite], Field(strict=False)] | None = Field(
        None, description="rad: lowest and highest initial yaw of objects"
    )
    colors: dict[str, Color] = Field(default_factory=dict, description="role → red, green, blue, opacity in [0, 1]")
    areas: dict[str, Box] = Field(
        default_factory=dict, description="boxes that goals and objects are drawn from, instead of the workspace's"
    )

    @field_validator("starts")
    @classmethod
    def _at_most_all(cls, starts: dict[str, float] | None) -> dict[str, float] | None:
        if starts is not None and sum(starts.values()) > 1:
            raise ValueError("shares of at most 1 together")
        return starts

    @field_validator("rotation")
    @classmethod
    def _in_order(cls, rotation: tuple[float, float] | None) -> tuple[float, float] | None:
        if rotation is not None and rotation[0] > rotation[1]:
            raise ValueError(f"must not be below the first number, {rotation[0]}")
        return rotation


class EvalParams(Section):
    """Evaluation during training, in separate environments."""

    every: Annotated[int, Field(ge=1)] = Field(
        10_000, description="env steps between evaluations; each waits for a rollout to end"
    )
    episodes: Annotated[int, Field(ge=1, le=100_000)] = Field(50, description="episodes of each evaluation")
    test_episodes: Annotated[int, Field(ge=0, le=100_000)] = Field(
        0, description="episodes of each evaluation on seeds that select no model (test curve); 0: no test curve"
    )
    final_episodes: Annotated[int, Field(ge=1, le=100_000)] = Field(
        100, description="fresh episodes on which model.zip is evaluated"
    )


class CheckpointParams(Section):
    """Periodic checkpoints."""

    every: Annotated[int, Field(ge=1)] = Field(
        50_000, description="env steps between checkpoints; each waits for a rollout to end"
    )
    keep: Annotated[int, Field(ge=1)] = Field(3, description="number of newest checkpoints to keep")


class VideoParams(Section):
    """Videos of the final policy and of its failures."""

    episodes: Annotated[int, Field(ge=0, le=1000)] = Field(4, description="episodes in the video; 0: no videos at all")
    width: Annotated[int, Field(ge=16, le=4096, multiple_of=2)] = 320
    height: Annotated[int, Field(ge=16, le=4096, multiple_of=2)] = 240
    camera: str = Field("main", description="a camera of the workspace")


class PretrainedParams(Section):
    """Start from something trained. May be just a path."""

    path: str | None = Field(None, description="a run, or its model.zip or policy.safetensors")
    load: list[Literal["policy", "critics", "optimizer", "normalizer", "replay_buffer"]] = Field(
        ["policy", "critics", "normalizer"],
        description="parts to load; optimisers and replay buffer come from the newest checkpoint of the run",
    )
    freeze: list[str] = Field(
        default_factory=list, description="patterns of parameters that training does not change, such as actor.mu.*"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_path(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value


class RunConfig(Section):
    """Complete config of a run; its defaults are the lowest layer: schema < algorithm < task < file < flag."""

    robot: str = Field("panda", description="the arm")
    task: str | list[str] | list[dict[str, Any]] = Field(
        "reach", description="a name, letters such as AGMDW, a list of stages, or a list of sub-tasks"
    )
    workspace: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="surroundings of the arm (default: the task's)"
    )
    control: str = Field("ee_delta", description="the controller: meaning of an action")
    reward: str = Field("sparse", description="name of a registered reward")
    observations: Annotated[list[str], Field(min_length=1)] | None = Field(
        None,
        description="names of observation components, see mygym list observation (default: all that the task needs)",
    )
    spaces: Literal["own", "shared"] = Field("own", description="spaces for this task, or shared by all tasks")
    task_params: TaskParams = Field(TaskParams(), description="parameters of the task")
    randomize: dict[str, Any] = Field(
        default_factory=dict, description="domain randomization: randomizer → [low, high], a number, or true"
    )
    algo: str = Field("sac", description="keyword of the algorithm")
    framework: str = Field("pytorch", description="implementation of the algorithm")
    algo_params: dict[str, Any] = Field(default_factory=dict, description="the algorithm's constructor arguments")
    imports: list[str] = Field(default_factory=list, description="modules that register custom components: --import")
    training_params: dict[str, Any] = Field(
        default_factory=dict, description="parameters of the training loop of an algorithm that is a Runner"
    )
    strategy: str = Field("standard", description="the training strategy; several are joined by +")
    strategy_params: dict[str, Any] = Field(
        default_factory=dict, description="the strategy's constructor arguments; of joined strategies, by name"
    )
    callbacks: list[str | dict[str, Any]] = Field(
        default_factory=list, description="callbacks of the training: names, or mappings with name and params"
    )
    pretrained: PretrainedParams = Field(PretrainedParams(), description="start from something trained")
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
    video: VideoParams = Field(VideoParams(), description="videos of the final policy")
    tensorboard: bool = Field(True, description="write TensorBoard logs")
    device: str = Field("cpu", description="device of the networks")
    threads: Annotated[int, Field(ge=1, le=1024)] = Field(1, description="threads for the networks' computations")
    logdir: Annotated[str, Field(min_length=1)] = Field("runs", description="folder of all runs")
    strict: bool = Field(False, description="refuse every value left to a default")

    @field_validator("observations")
    @classmethod
    def _unique(cls, observations: list[str] | None) -> list[str] | None:
        for name in observations or ():
            if (observations or []).count(name) > 1:
                raise ValueError(f"each name once, not {name} twice")
        return observations

    @field_validator("device")
    @classmethod
    def _known_device(cls, device: str) -> str:
        if not re.fullmatch(r"(cpu|cuda|mps|xpu)(:[0-9]{1,2})?", device):
            raise ValueError("cpu, cuda, mps or xpu, if the framework supports it; :1 for the second device")
        return device


NOT_SHAPING = frozenset({"seed", "imports", "logdir", "eval", "checkpoint", "video", "tensorboard", "strict"})
"""Top-level keys that do not change what a run learns; `config_hash` ignores them."""

LATER: dict[str, dict[str, str]] = {"engine": {"fused": "the fused engine"}}
"""Planned values that this version does not have yet → their description, for the error message."""
