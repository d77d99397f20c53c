"""Schema of a run's config, shared by files, flags and the Python API."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_serializer, model_validator

from mygym.errors import ConfigError, bad_value, print_note
from mygym.registry.entries import HAS_BULLET

DEFAULT_ENGINE = "pybullet" if HAS_BULLET else "mujoco"
"""The engine of a config that names none, and of evaluations: MuJoCo on a Python that has no PyBullet."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Corner = Annotated[tuple[Finite, Finite, Finite], Field(strict=False)]
Distance = Annotated[float, Field(ge=0, le=10)]
Share = Annotated[float, Field(ge=0, le=1)]
Color = Annotated[tuple[Share, Share, Share, Share], Field(strict=False)]


class Section(BaseModel):
    """Base class of all sections: immutable, unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class NamedSection(Section):
    """Section that may be just text: the value of its first key."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {next(iter(cls.model_fields)): value}
        if not isinstance(value, Mapping | cls):
            raise ValueError("text, or a mapping, {key: value}")
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(core_schema)]}


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


Names = str | Annotated[list[str], Field(min_length=1, strict=False)]
"""Name of an object, or several names, of which each episode draws one."""

Count = Annotated[int, Field(ge=1, le=20)]


class Distractor(NamedSection):
    """Object that the task does not use; it lies in the way, or moves back and forth on a line. May be just a name."""

    object: Names = Field(description="name of the object, or several names to draw from in each episode")
    count: Count | Annotated[tuple[Annotated[int, Field(ge=0)], Count], Field(strict=False)] = Field(
        1, description="number of such objects, or the lowest and highest number to draw in each episode"
    )
    axis: Corner = Field((0.0, 1.0, 0.0), description="direction of its motion, in the world frame")
    speed: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="m/s; 0: it does not move")
    range: Annotated[float, Field(gt=0, le=1)] = Field(0.1, description="m to either side of its starting position")

    @property
    def objects(self) -> tuple[str, ...]:
        """Names to draw from."""
        return (self.object,) if isinstance(self.object, str) else tuple(self.object)

    @property
    def counts(self) -> tuple[int, int]:
        """Lowest and highest number of objects."""
        return (self.count, self.count) if isinstance(self.count, int) else self.count

    @field_validator("count")
    @classmethod
    def _in_order(cls, count: Any) -> Any:
        if isinstance(count, tuple) and count[0] > count[1]:
            raise ValueError(f"the lowest first, [{count[1]}, {count[0]}]")
        return count

    @model_serializer(mode="wrap")
    def _without_count(self, handler: Any) -> Any:
        """Omit the default count, as in configs from before this key existed."""
        return {key: value for key, value in handler(self).items() if key != "count" or value != 1}

    @field_validator("axis")
    @classmethod
    def _not_zero(cls, axis: Corner) -> Corner:
        if not any(axis):
            raise ValueError("a direction: three numbers that are not all 0")
        return axis


class TaskParams(Section):
    """Parameters of the task; None keeps the default of the task."""

    tolerance: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="m from the goal, rad for a part that turns, that count as success"
    )
    hold: Annotated[int, Field(ge=1, le=1000)] | None = Field(None, description="steps for which success must last")
    horizon: Annotated[int, Field(ge=1, le=100_000)] | None = Field(None, description="steps until truncation")
    training_horizon: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None, description="steps until truncation of training episodes, if before the horizon"
    )
    stages_done: Annotated[float, Field(ge=0)] | None = Field(
        None,
        description="stages that the scripted expert completes before an episode starts; 1.5: and half of the second",
    )
    starts: dict[Literal["at_object", "in_hand", "along_expert"], Share] | None = Field(
        None,
        description="share of training episodes that start at the object, with it in the hand, or at a random point of "
        "the scripted expert's episode: {in_hand: 0.3}",
    )
    goals_on_surface: Share | None = Field(
        None, description="share of the goals of training episodes on the surface, in tasks whose goals are in the air"
    )
    object: str | None = Field(None, description="name of the object that the task acts on")
    objects: dict[str, Names] = Field(
        default_factory=dict, description="role → name, or several names to draw from in each episode"
    )
    distractors: list[Distractor] | None = Field(
        None,
        description="objects that lie in the way (names), or move: {object, count, axis, speed in m/s, range in m}",
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


class ControlParams(NamedSection):
    """The controller and its parameters; further keys are parameters of its class. May be just a name."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: Annotated[str, Field(min_length=1)] = Field("ee_delta", description="the controller: meaning of an action")
    action_repeat: Annotated[int, Field(ge=1, le=100)] = Field(
        1, description="control steps of 40 ms for which each action is repeated"
    )
    max_force: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="N m: torque that no joint exceeds (default: the limit of each joint)"
    )
    max_velocity: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="rad/s: speed that no joint exceeds (default: the limit of each joint)"
    )

    gripper: Literal["continuous", "binary"] = Field(
        "continuous",
        description="continuous: an action sets its width; binary: a positive one opens it, others close it",
    )

    @model_serializer(mode="wrap")
    def _as_typed(self, handler: Any) -> Any:
        """Return just the name if nothing else is set, as in configs without parameters."""
        return self.name if self == ControlParams(name=self.name) else handler(self)

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the controller's class."""
        return dict(self.model_extra or {})


class RobotParams(Section):
    """Changes of the robot."""

    home: list[Finite] | None = Field(
        None, description="rad: joint positions of all arms at the start of an episode (default: the workspace's)"
    )


class ImageParams(Section):
    """Images of the observation components that see through a camera."""

    width: Annotated[int, Field(ge=8, le=1024)] = Field(64, description="pixels")
    height: Annotated[int, Field(ge=8, le=1024)] = Field(64, description="pixels")
    depth_range: Annotated[tuple[Distance, Distance], Field(strict=False)] | None = Field(
        None,
        description="m: distances with the depths 0 and 255; others get the nearer of the two (default: 1 m to either "
        "side of the point that a camera of the workspace looks at; [0, 0.5] for a camera on the robot)",
    )
    frames: Annotated[int, Field(ge=1, le=16)] = Field(
        1, description="last images of a camera in each image of the observation, as channels, the newest last"
    )
    detector: str | None = Field(
        None,
        description="a file of `mygym detector train`: objects in the observation are where the detector sees them, "
        "and boxes, centroids and segmentation are its output, instead of the simulator's",
    )
    encoder: str | None = Field(
        None,
        description="a file of `mygym encoder train`, whose latents the observation component latent has; it sees "
        "images of its size, whatever width, height and frames are",
    )
    goal: Literal["image", "vector"] = Field(
        "image",
        description="image: a green marker shows the goal, and observations have no goal vectors; vector: observations "
        "have goal vectors, which contain positions of objects, and images no marker",
    )

    @field_validator("depth_range")
    @classmethod
    def _in_order(cls, depth_range: tuple[float, float] | None) -> tuple[float, float] | None:
        if depth_range is not None and depth_range[0] >= depth_range[1]:
            raise ValueError("the nearer distance first, and two that differ")
        return depth_range


class ActionParams(Section):
    """Form of the actions; by default numbers in [-1, 1]."""

    discrete: Annotated[int, Field(ge=2, le=101)] | None = Field(
        None, description="values of each component, evenly spaced in [-1, 1]; a gripper has two (default: continuous)"
    )
    combined: bool = Field(
        False, description="a single number for all components (Discrete), not a number for each (MultiDiscrete)"
    )


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
    camera: str = Field("main", description="a camera of the workspace or the robot")


class PretrainedParams(NamedSection):
    """Start from something trained. May be just a path."""

    path: str | None = Field(None, description="a run, or its model.zip or policy.safetensors")
    load: list[Literal["policy", "critics", "optimizer", "normalizer", "replay_buffer"]] = Field(
        ["policy", "critics", "normalizer"],
        description="parts to load; optimisers and replay buffer come from the newest checkpoint of the run",
    )
    freeze: list[str] = Field(
        default_factory=list, description="patterns of parameters that training does not change, such as actor.mu.*"
    )


FORMER_KEYS: Mapping[str, str] = {"workers": "learners", "subprocesses": "env_processes"}
"""Former key of a config → its key; users and older runs may give former keys."""


def renamed(values: Mapping[str, Any], notify: bool = True) -> dict[str, Any]:
    """Return the values of a config with the keys in place of their former names; `notify` on standard error.

    Raises:
        ConfigError: A key has a value under both names.
    """
    for former, key in FORMER_KEYS.items():
        if former not in values:
            continue
        if key in values:
            raise ConfigError(bad_value(former, values[former], f"{key} alone", f"is given beside {key}, its name now"))
        if notify:
            note_former(former, key)
    return {FORMER_KEYS.get(key, key): value for key, value in values.items()}


@functools.cache
def note_former(former: str, name: str) -> None:
    """Note on standard error, once in a process, that something has another name now."""
    print_note(f"{former} is called {name} now")


class EnvConfig(Section):
    """What an environment is: its task, its robot, and what a policy sees and does."""

    robot: str = Field("panda", description="the arm")
    task: str | list[str] | list[dict[str, Any]] = Field(
        "reach", description="a name, letters such as AGMDW, plain words, a list of stages, or a list of sub-tasks"
    )
    workspace: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="surroundings of the arm (default: the task's)"
    )
    robot_params: RobotParams = Field(RobotParams(), description="changes of the robot")
    control: ControlParams = Field(
        ControlParams(), description="the controller: meaning of an action; a name, or a mapping with its parameters"
    )
    actions: ActionParams = Field(ActionParams(), description="form of the actions")
    reward: str = Field("sparse", description="name of a registered reward")
    observations: Annotated[list[str], Field(min_length=1)] | None = Field(
        None,
        description="names of observation components, see mygym list observation (default: all that the task needs); "
        "image:wrist is the component image of the camera wrist",
    )
    critic_observations: Annotated[list[str], Field(min_length=1)] | None = Field(
        None,
        description="names of further components that only the critic of an actor-critic algorithm observes, exact and "
        "in place of images",
    )
    image_params: ImageParams = Field(ImageParams(), description="images of the components that see through a camera")
    spaces: Literal["own", "shared"] = Field("own", description="spaces for this task, or shared by all tasks")
    task_params: TaskParams = Field(TaskParams(), description="parameters of the task")
    randomize: dict[str, Any] = Field(
        default_factory=dict, description="domain randomization: randomizer → [low, high], a number, or true"
    )

    @field_validator("observations", "critic_observations")
    @classmethod
    def _unique(cls, observations: list[str] | None) -> list[str] | None:
        for name in observations or ():
            if (observations or []).count(name) > 1:
                raise ValueError(f"each name once, not {name} twice")
        return observations


class RunConfig(EnvConfig):
    """Complete config of a run; its defaults are the lowest layer: schema < algorithm < task < file < flag."""

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
    engine: str = Field(
        DEFAULT_ENGINE,
        description="physics: mygym list engine; fused: all environments in one array, evaluations use pybullet",
    )
    her: bool | None = Field(None, description="hindsight replay (default: where it applies)")
    normalize: bool = Field(False, description="normalise observations by running mean and variance")
    steps: Annotated[int, Field(ge=1)] = Field(100_000, description="env steps to train")
    n_envs: Annotated[int, Field(ge=1, le=65_536)] = Field(
        1, description="training environments; at most 1024 with engine pybullet"
    )
    env_processes: bool | Annotated[int, Field(ge=0, le=1024)] | Literal["auto"] = Field(
        False, description="processes that step the environments; true: one for each; auto: measured; same results"
    )
    overlap: bool = Field(
        False,
        description="gradient steps while other processes step the environments: on several cores; changes results",
    )
    learners: Annotated[int, Field(ge=1, le=1024)] = Field(
        1, description="processes that train the same model, each with a share of the environments; changes results"
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(0, description="seed of everything random")
    stop_at_success: Annotated[float, Field(gt=0, le=1)] | None = Field(
        0.98, description="stop when two evaluations in a row are at least this good; null: never"
    )
    eval: EvalParams = Field(EvalParams(), description="evaluation during training")
    checkpoint: CheckpointParams = Field(CheckpointParams(), description="periodic checkpoints")
    video: VideoParams = Field(VideoParams(), description="videos of the final policy")
    tensorboard: bool = Field(True, description="write TensorBoard logs")
    device: str = Field("cpu", description="device of the networks; cuda with pytorch: also of engine fused")
    threads: Annotated[int, Field(ge=1, le=1024)] = Field(1, description="threads for the networks' computations")
    logdir: Annotated[str, Field(min_length=1)] = Field("runs", description="folder of all runs")
    strict: bool = Field(False, description="refuse every value left to a default")

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, values: Any) -> Any:
        return renamed(values) if isinstance(values, Mapping) else values

    @field_validator("logdir")
    @classmethod
    def _one_line(cls, logdir: str) -> str:
        if not logdir.isprintable():  # programs read the path from the line `run: PATH`
            raise ValueError("a path of printable characters")
        return logdir

    @field_validator("device")
    @classmethod
    def _known_device(cls, device: str) -> str:
        if not re.fullmatch(r"cpu(:0)?|(cuda|mps|xpu)(:[0-9]{1,2})?", device):
            raise ValueError("cpu, cuda, mps or xpu, if the framework supports it; :1 for the second device")
        return device


NOT_SHAPING = frozenset(
    {"seed", "imports", "logdir", "eval", "checkpoint", "video", "tensorboard", "strict", "env_processes"}
)
"""Top-level keys that do not change the policy that a run learns; `config_hash` ignores them."""
