"""Camera components of observations: spaces, contents, one rendering per camera and step, and refusals."""

from __future__ import annotations

import copy
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.env_checker import check_env

from mygym.checks import check
from mygym.engines.rendering.camera import Camera
from mygym.envs.batch_env import BatchEnv
from mygym.envs.multi_task_env import MultiTaskEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, RegistryError
from mygym.tasks.observations import find_component
from tests.components import SEEING

WITHOUT_FILE = [name for name in SEEING if not find_component(name).encoded]
EVERYTHING = [*WITHOUT_FILE, *(f"{name}:wrist" for name in WITHOUT_FILE), "ee_position"]


def pushing(observations: list[str], **arguments: Any) -> RobotEnv:
    return RobotEnv("push", observations=observations, **arguments)


def played(env: RobotEnv, steps: int = 6) -> list[Any]:
    """Observations of an expert's first steps."""
    return [env.reset(seed=3)[0], *(env.step(env.expert_action())[0] for _ in range(steps))]


@pytest.mark.parametrize("name", SEEING)
def test_the_checks_of_components_that_see(name: str) -> None:
    (finding,) = check("observation", name)
    assert finding.status == "passed", finding


def test_all_components_of_two_cameras_are_in_the_space() -> None:
    with closing(pushing(EVERYTHING, image_params={"width": 48, "height": 40})) as env:
        for observation in played(env):
            assert env.observation_space.contains(observation)
        assert env.observation_space["rgbd:wrist"] == spaces.Box(0, 255, (40, 48, 4), np.uint8)
        widths = {name: columns.stop - columns.start for name, columns in env.components.items()}
        numbers = {"boxes": 10, "centroids": 6, "boxes:wrist": 10, "centroids:wrist": 6, "ee_position": 3}
        assert widths == numbers, "of the cube and the marker of the goal"
        assert len(observation["observation"]) == sum(numbers.values())
        np.testing.assert_array_equal(observation["rgbd"], np.dstack([observation["image"], observation["depth"]]))
        assert (observation["image"] != observation["image:wrist"]).any()


@pytest.mark.parametrize(
    ("observations", "arguments", "keys"),
    [
        (["image"], {}, {"image"}),
        (["image", "ee_position"], {}, {"image", "observation"}),
        (["image", "ee_position"], {"goal_env": False}, {"image", "observation"}),
        (["image"], {"image_params": {"goal": "vector"}}, {"image", "achieved_goal", "desired_goal"}),
        (["boxes"], {}, {"observation"}),
        (["boxes"], {"goal_env": False}, None),
        (["image", "ee_position"], {"spaces": "shared"}, {"image", "observation"}),
    ],
)
def test_observations_have_goal_vectors_only_if_no_image_shows_the_goal(
    observations: list[str], arguments: dict[str, Any], keys: set[str] | None
) -> None:
    with closing(pushing(observations, **arguments)) as env:
        space = env.observation_space
        assert (set(space.spaces) if isinstance(space, spaces.Dict) else None) == keys
        assert space.contains(env.reset(seed=0)[0])
        assert hasattr(env, "compute_reward") == (keys is not None and "desired_goal" in keys)
        check_env(env)


def test_numbers_agree_with_the_segmentation() -> None:
    with closing(pushing(["segmentation:top", "boxes:top", "centroids:top", "depth:top"])) as env:
        observation = env.reset(seed=1)[0]
        frame = env.capture("top")
        near, far = env.depth_range("top")
    segmentation = observation["segmentation:top"][..., 0]
    labels = ("background", *frame.labels, "goal")
    values = {name: observation["observation"][columns] for name, columns in env.components.items()}
    for row, name in enumerate(("cube", "goal")):
        rows, columns = np.nonzero(segmentation == labels.index(name))
        assert len(rows) > 3
        left, top, right, bottom, share = values["boxes:top"][5 * row : 5 * row + 5]
        edges = [columns.min(), rows.min(), columns.max(), rows.max()]
        np.testing.assert_allclose(32 * (np.array([left, top, right, bottom]) + 1) - 0.5, edges, atol=1e-4)
        assert share == pytest.approx(len(rows) / 64**2)
        x, y, visible = values["centroids:top"][3 * row : 3 * row + 3]
        assert (32 * (x + 1) - 0.5, 32 * (y + 1) - 0.5) == pytest.approx((columns.mean(), rows.mean()), abs=1e-4)
        assert visible == 1
    seen = (segmentation > 0) & (segmentation < labels.index("goal"))
    metres = near + observation["depth:top"][..., 0] / 255 * (far - near)
    np.testing.assert_allclose(metres[seen], frame.depth[seen], atol=(far - near) / 500)
    assert (observation["depth:top"][segmentation == 0] == 255).all()


def test_a_hidden_object_has_zeros() -> None:
    with closing(RobotEnv("reach", observations=["centroids:wrist", "boxes:wrist"])) as env:
        rows = [played(env, 0)[0]["observation"] for _ in range(1)]
        rows += [env.reset()[0]["observation"] for _ in range(20)]
    hidden = [row for row in rows if row[2] == 0]
    assert 0 < len(hidden) < len(rows)
    assert not np.any(hidden)


def test_each_camera_is_rendered_once_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[str] = []
    capture = Camera.capture

    def counted(self: Camera, width: int, height: int, camera: str, *rest: Any) -> Any:
        rendered.append(camera)
        return capture(self, width, height, camera, *rest)

    monkeypatch.setattr(Camera, "capture", counted)
    with closing(pushing(EVERYTHING)) as env:
        env.reset(seed=0)
        assert sorted(rendered) == ["main", "wrist"]
        env.step(env.expert_action())
        assert len(rendered) == 4
        env.observe_as(env.observation_spec)
        assert len(rendered) == 4
        env.step(env.expert_action())
        assert len(rendered) == 6


def test_episodes_are_equal_after_any_history_and_in_copies() -> None:
    with closing(pushing(["image", "depth:wrist", "boxes"], randomize={"colors": True, "light": True})) as env:
        first = played(env)
        env.reset(seed=9)
        second = played(env)
        with closing(copy.deepcopy(env)) as twin:
            state = env.state_dict()
            restored = twin.load_state_dict(state)
    for left, right in zip([*first, second[-1]], [*second, restored], strict=True):
        assert all(np.array_equal(left[key], right[key]) for key in left)
    assert any((later["image"] != first[0]["image"]).any() for later in first[1:])


def test_randomizers_change_images_and_nothing_else() -> None:
    with closing(pushing(["image", "ee_position"])) as env:
        plain = played(env, 2)[-1]
    with closing(pushing(["image", "ee_position"], randomize={"textures": True, "camera": 0.1})) as env:
        other = played(env, 2)[-1]
    assert (plain["image"] != other["image"]).mean() > 0.1
    np.testing.assert_array_equal(plain["observation"], other["observation"])


def test_codes_of_several_tasks_are_added_beside_images() -> None:
    arguments = [{"task": task, "observations": ["image"], "spaces": "shared"} for task in ("reach", "push")]
    codes = np.eye(2, dtype=np.float32)
    with closing(MultiTaskEnv(arguments, ["reach", "push"], codes)) as env:
        for _ in range(2):
            observation = env.reset()[0]
            assert env.observation_space.contains(observation)
            np.testing.assert_array_equal(observation["observation"], codes[env.variant])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"observations": ["image:wirst"]}, ["observations", "'image:wirst'", "did you mean 'image:wrist'"]),
        ({"observations": ["ee_position:wrist"]}, ["'ee_position:wrist'", "uses no camera", "image:wrist"]),
        ({"observations": ["image:wrist"], "robot": "kuka"}, ["'image:wrist'", "image:main"]),
        ({"observations": ["image"], "image_params": {"width": 4}}, ["image_params.width", "4", "8"]),
        ({"observations": ["image"], "image_params": {"depth_range": [2, 1]}}, ["image_params.depth_range"]),
        ({"observations": ["image"], "image_params": {"goal": "picture"}}, ["image_params.goal", "'picture'"]),
        ({"observations": ["boxes"], "spaces": "shared"}, ["'boxes'", "shared", "spaces: own"]),
    ],
)
def test_mistakes(arguments: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        RobotEnv("push", **arguments)
    for word in words:
        assert word in str(error.value)
    with pytest.raises(RegistryError, match="did you mean 'image'"):
        RobotEnv("push", observations=["imagee"])


def test_the_fused_engine_refuses_images_by_name() -> None:
    with pytest.raises(ConfigError, match="observations: 'image:wrist' needs images"):
        BatchEnv({"task": "reach", "observations": ["image:wrist", "ee_position"]}, 2)


def test_frames_are_the_last_images_of_the_episode() -> None:
    """Before the first image of an episode, the first repeats; other uses of the environment change nothing."""
    names, size = ["image", "depth:wrist", "ee_position"], {"width": 24, "height": 16}
    with (
        closing(pushing(names, image_params=size)) as single,
        closing(pushing(names, image_params={**size, "frames": 3})) as stacked,
    ):
        for _ in range(2):
            images, stacks = played(single), played(stacked)
            for name in ("image", "depth:wrist"):
                for step, stack in enumerate(stacks):
                    assert stacked.observation_space[name].contains(stack[name])
                    last = [images[max(0, earlier)][name] for earlier in (step - 2, step - 1, step)]
                    np.testing.assert_array_equal(stack[name], np.dstack(last))
        snapshot, twin = stacked.snapshot(), copy.deepcopy(stacked)
        expected = stacked.step(stacked.expert_action())[0]
        with closing(twin):
            np.testing.assert_array_equal(twin.step(twin.expert_action())[0]["image"], expected["image"])
        stacked.step(stacked.expert_action())
        restored = stacked.restore(snapshot)
        np.testing.assert_array_equal(restored["image"], stacks[-1]["image"])
        stacked.observe_as(stacked.observation_spec)
        again = stacked.step(stacked.expert_action())[0]
        np.testing.assert_array_equal(again["image"][..., :6], expected["image"][..., :6])


def test_too_many_frames_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"image_params.frames: 3 .*fewer than 3 for rgbd"):
        pushing(["depth", "rgbd"], image_params={"width": 24, "height": 12, "frames": 3})
