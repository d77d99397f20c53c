"""Randomizers: fields, ranges, independence and exact episodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mygym.config import config_hash
from mygym.envs.randomizers import LIMITS, Draw, find_randomizer, ranges, register_randomizer
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, RegistryError
from mygym.planning.resolve import resolve_config
from mygym.registry import registry
from mygym.robotics.episode_randomization import EpisodeRandomization
from mygym.training.env_factory import make_env
from tests.episodes import as_bytes, roll

RANDOMIZERS = registry("randomizer").names()
CHANGES: Mapping[str, set[str]] = {
    "colors": {"colors", "color_change"},
    "textures": {"textures", "texture_contrast"},
}
"""Randomizer → fields that it sets, unless it sets the field of its name."""
VISUAL = {"light", "colors", "textures", "camera"}
DYNAMIC = {"action_delay", "action_noise", "joint_friction", "joint_gain", "object_damping", "object_friction"}
"""Randomizers that change the dynamics, not the start of an episode."""
ALL = dict.fromkeys(RANDOMIZERS, True)


def wide(name: str) -> list[float]:
    """Return a range in which each value has an effect."""
    return {
        "action_delay": [2, 2],
        "action_noise": [0.1, 0.2],
        "observation_noise": [0.01, 0.02],
        "joint_friction": [0.7, 0.9],
        "object_friction": [0.2, 0.5],
    }.get(name) or list(find_randomizer(name).default)


def draw(name: str, seed: int, low: float, high: float) -> EpisodeRandomization:
    randomizer = find_randomizer(name)
    return randomizer.function(
        EpisodeRandomization(), Draw((low, high), np.random.default_rng(seed), objects=3, joints=7)
    )


def numbers(value: Any) -> list[float]:
    return list(value) if isinstance(value, tuple) else [value]


@pytest.fixture
def pushing(cached_env: Any) -> Any:
    """Return environments of a push by their randomizers."""
    return lambda randomize, **keywords: cached_env(task="push", randomize=randomize, **keywords)


# values -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RANDOMIZERS)
def test_a_randomizer_changes_its_fields_only(name: str) -> None:
    plain = EpisodeRandomization()
    for seed in range(20):
        drawn = draw(name, seed, *wide(name))
        changed = {
            field.name
            for field in fields(EpisodeRandomization)
            if getattr(drawn, field.name) != getattr(plain, field.name)
        }
        assert changed <= CHANGES.get(name, {name})
        assert changed


@pytest.mark.parametrize("name", RANDOMIZERS)
def test_values_fill_the_range(name: str) -> None:
    randomizer = find_randomizer(name)
    assert randomizer.allowed[0] <= randomizer.default[0] <= randomizer.default[1] <= randomizer.allowed[1]
    if name in VISUAL:
        return
    low, high = (1, 4) if randomizer.whole else randomizer.allowed
    drawn = [number for seed in range(300) for number in numbers(getattr(draw(name, seed, low, high), name))]
    assert low <= min(drawn) <= low + 0.05 * (high - low)
    assert high - 0.05 * (high - low) <= max(drawn) <= high
    assert not randomizer.whole or set(drawn) == {1, 2, 3, 4}


@pytest.mark.parametrize("name", ["object_size", "object_mass", "object_friction", "object_damping"])
def test_each_object_has_a_separate_value(name: str) -> None:
    values = getattr(draw(name, 0, *wide(name)), name)
    assert len(values) == len(set(values)) == 3


def test_camera_and_light_are_within_their_limits() -> None:
    for seed in range(50):
        shift = draw("camera", seed, 0.1, 0.1).camera
        assert all(abs(offset) <= 0.1 for offset in (*shift.target, shift.sideways, shift.upwards, shift.backwards))
        light = draw("light", seed, 1.0, 1.0).light
        assert light is not None
        assert light.direction[2] > 0.5
        assert all(0.5 < channel <= 1.0 for channel in light.color)
        assert 0.5 < light.ambient + light.diffuse < 1.4
        little = draw("light", seed, 0.0, 0.0).light
        assert little is not None
        assert little.direction == pytest.approx((1.0, -0.35, 1.7), abs=0.05)


# episodes -----------------------------------------------------------------------------------------------------------


def test_inactive_randomizers_change_nothing(pushing: Any) -> None:
    plain = pushing({})
    assert not plain._randomizer.is_on
    off = pushing(dict.fromkeys(RANDOMIZERS, False))
    assert roll(off, 3) == roll(plain, 3)


@pytest.mark.parametrize("name", [name for name in RANDOMIZERS if name != "object_size"])
def test_the_placement_does_not_depend_on_randomizers(name: str, pushing: Any) -> None:
    plain, randomized = pushing({}), pushing({name: wide(name)})
    for seed in range(5):
        plain.reset(seed=seed)
        randomized.reset(seed=seed)
        assert (plain.goals == randomized.goals).all()
        assert (plain.world.state.object_position == randomized.world.state.object_position).all()


@pytest.mark.parametrize("name", RANDOMIZERS)
def test_randomizers_are_independent_of_each_other(name: str, pushing: Any) -> None:
    single_env, joint_env = pushing({name: wide(name)}), pushing({other: wide(other) for other in RANDOMIZERS})
    for seed in range(3):
        single_env.reset(seed=seed)
        joint_env.reset(seed=seed)
        for field in CHANGES.get(name, {name}):
            assert getattr(single_env.world.randomization, field) == getattr(joint_env.world.randomization, field)


def test_values_of_randomizers_are_uncorrelated(pushing: Any) -> None:
    env = pushing({"object_mass": [0.5, 1.5], "object_friction": [0.5, 1.5], "action_noise": [0.5, 1.0]})
    pairs = []
    for seed in range(20):
        env.reset(seed=seed)
        drawn = env.world.randomization
        pairs.append((drawn.object_mass[0], drawn.object_friction[0], drawn.action_noise))
    correlation = np.corrcoef(np.array(pairs).T) - np.eye(3)
    assert np.abs(correlation).max() < 0.7


@pytest.mark.parametrize("name", RANDOMIZERS)
def test_episodes_differ_and_are_exact_after_any_history(name: str, pushing: Any) -> None:
    env, plain = pushing({name: wide(name)}), pushing({})
    env.reset(seed=5)
    first = env.world.randomization
    episode = roll(env, 5)
    following = [env.reset()[0] and env.world.randomization for _ in range(3)]
    if name != "action_delay":  # its range is constant here
        assert len({repr(drawn) for drawn in (first, *following)}) == 4
    for history in (1, 4):
        roll(env, 100 + history, 5 + 4 * history, actions=history)
        assert roll(env, 5) == episode
    env.reset(seed=5)
    assert [env.reset()[0] and env.world.randomization for _ in range(3)] == following
    same = roll(plain, 5)
    if name in VISUAL:
        assert episode == same
    else:
        assert episode != same
        assert (episode[0] == same[0]) == (name in DYNAMIC or name == "object_mass")


def test_all_randomizers_are_exact_in_another_instance(pushing: Any) -> None:
    env, other = pushing(ALL), RobotEnv("push", randomize=ALL)
    roll(other, 8)
    assert [roll(env, 4), roll(env, None)] == [roll(other, 4), roll(other, None)]
    other.close()


@pytest.mark.parametrize("task", ["push", "AGMDW"])
def test_a_state_is_replayed_with_its_delays_and_noise(task: str) -> None:
    env, other = (RobotEnv(task, randomize=ALL) for _ in range(2))
    roll(env, 6)
    roll(env, None, 11)
    state = env.state_dict()
    assert as_bytes(state["observation"]) == as_bytes(env.state_dict()["observation"])
    assert as_bytes(other.load_state_dict(state)) == as_bytes(state["observation"])
    action = np.full(env.action_space.shape, 0.4, np.float32)
    for _ in range(5):
        assert as_bytes(env.step(action)[0]) == as_bytes(other.step(action)[0])
    env.close()
    other.close()


def test_images_follow_from_the_seed(pushing: Any) -> None:
    env = pushing(ALL, render_mode="rgb_array", render_width=120, render_height=90)
    images = {}
    for seed in (1, 2, 3, 2, 1):
        env.reset(seed=seed)
        image = env.render().tobytes()
        assert images.setdefault(seed, image) == image
    assert len(set(images.values())) == 3


# actions and observations -------------------------------------------------------------------------------------------


def test_actions_are_delayed_and_the_arm_waits() -> None:
    for control in ("ee_delta", "ee_absolute", "joint_position", "joint_torque"):
        late, prompt = (RobotEnv(control=control, randomize={"action_delay": steps}) for steps in (3, 0))
        late.reset(seed=0)
        prompt.reset(seed=0)
        home = late.world.state.ee_position[0].copy()
        for step in range(6):
            late.step(np.full(late.action_space.shape, 0.5, np.float32))
            moved = np.linalg.norm(late.world.state.ee_position[0] - home)
            assert moved < 2e-3 if step < 3 else moved > 2e-3, (control, step)
        late.close()
        prompt.close()


def test_observation_noise_has_its_deviation_and_spares_goals_and_stages(pushing: Any) -> None:
    noisy, plain = pushing({"observation_noise": 0.01}), pushing({})
    differences = []
    for seed in range(40):
        (observed, _), (exact, _) = noisy.reset(seed=seed), plain.reset(seed=seed)
        differences.append(observed["observation"] - exact["observation"])
        for key in ("achieved_goal", "desired_goal"):
            assert (observed[key] == exact[key]).all()
        reward = noisy.compute_reward(observed["achieved_goal"], observed["desired_goal"], {})
        assert noisy.step(np.zeros(noisy.action_space.shape, np.float32))[1] == reward
    stages = len(noisy.task.stage_bindings) + 1
    spread = np.array(differences)
    measured = spread[:, :-stages]
    clipped = np.abs(measured).max(axis=0) < 1e-9
    assert np.delete(measured, clipped, axis=1).std() == pytest.approx(0.01, rel=0.15)
    assert (spread[:, -stages:] == 0).all()


def test_action_noise_has_its_deviation(pushing: Any) -> None:
    env = pushing({"action_noise": 0.2})
    env.reset(seed=0)
    drawn = np.array([env._randomizer.act(np.zeros((1, *env.action_space.shape)), env._episodes) for _ in range(500)])
    assert drawn.std() == pytest.approx(0.2, rel=0.1)
    assert drawn.mean() == pytest.approx(0.0, abs=0.03)


def test_goals_and_heights_follow_the_size() -> None:
    task = [{"stages": "AGMDW", "object": "cube", "onto": "crate"}]
    with RobotEnv(task, randomize={"object_size": [0.6, 0.9]}) as env:
        for seed in range(5):
            env.reset(seed=seed)
            cube, crate = env.world.objects
            assert env.world.randomization.object_size != (1.0, 1.0)
            heights = env.world.state.object_position[0, :, 2]
            assert heights == pytest.approx([cube.half_height, crate.half_height], abs=1e-6)
            assert env.goals[0, 0, 2] == pytest.approx(crate.size[2] + cube.half_height)


# the config ---------------------------------------------------------------------------------------------------------

MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    ({"object_mas": True}, ["randomize", "'object_mas'", "did you mean 'object_mass'"]),
    ({"object_mass": [2.0, 0.5]}, ["randomize.object_mass: [2.0, 0.5]", "lowest comes first; allowed: [0.5, 2]"]),
    ({"object_mass": [0.001, 2]}, ["randomize.object_mass", "[0.001, 2]", "0.01 to 100", "factor"]),
    ({"object_mass": [0.5, 200]}, ["randomize.object_mass", "200", "0.01 to 100"]),
    ({"object_mass": [1, 2, 3]}, ["randomize.object_mass", "is not a range"]),
    ({"object_mass": "heavy"}, ["randomize.object_mass", "'heavy'", "is not a range", "[low, high]"]),
    ({"action_delay": [0, 1.5]}, ["randomize.action_delay", "whole numbers", "0 to 25"]),
    ({"action_noise": float("nan")}, ["action_noise", "nan"]),
]


@pytest.mark.parametrize(("config", "words"), MISTAKES, ids=lambda case: str(case)[:40])
def test_invalid_ranges_are_refused_before_construction(config: dict[str, Any], words: list[str]) -> None:
    for check in (
        ranges,
        lambda config: RobotEnv(randomize=config),
        lambda config: resolve_config({"randomize": config}),
    ):
        with pytest.raises(ConfigError) as error:
            check(config)
        assert all(word in str(error.value) for word in words), str(error.value)


def test_ranges_accept_numbers_and_booleans() -> None:
    values = ranges({"object_mass": 2, "camera": True, "light": False, "colors": None, "action_delay": [0, 1]})
    assert values == {"action_delay": (0, 1), "camera": (0.05, 0.05), "object_mass": (2, 2)}


def test_the_resolved_config_and_its_hash_contain_ranges() -> None:
    plain, randomized = resolve_config(), resolve_config({"randomize": {"object_mass": True, "camera": 0.1}})
    assert randomized.config.randomize == {"camera": [0.1, 0.1], "object_mass": [0.5, 2.0]}
    values = plain.values()
    assert config_hash(values) == config_hash({key: value for key, value in values.items() if key != "randomize"})
    assert config_hash(values) != config_hash(randomized.values())
    assert resolve_config(randomized.values()).config.randomize == randomized.config.randomize
    with make_env(randomized.config) as env:
        env.reset(seed=0)
        assert env.world.randomization.camera != EpisodeRandomization().camera


CUSTOM = '''
from dataclasses import replace
from mygym.envs.randomizers import register_randomizer

@register_randomizer("one_batch", unit="factor", default=(0.9, 1.1), allowed=(0.0, 10.0))
def one_batch(randomization, draw):
    """Friction of all objects, by the same factor."""
    return replace(randomization, object_friction=(draw.value(),) * draw.objects)
'''


def test_a_custom_randomizer_is_discovered_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "batch.py").write_text(CUSTOM)
    monkeypatch.chdir(tmp_path)
    assert registry("randomizer").get("one_batch").help == "Friction of all objects, by the same factor."
    with RobotEnv("push", randomize={"one_batch": [0.4, 0.5]}, task_params={"distractors": ["can"]}) as env:
        env.reset(seed=0)
        first, second = env.world.randomization.object_friction
        assert first == second
        assert 0.4 <= first <= 0.5
    assert registry("randomizer").get("one_batch").origin.startswith(str(tmp_path / "envs" / "batch.py"))


def test_a_result_that_is_no_randomization_is_refused_by_name() -> None:
    register_randomizer("lost", "N", default=(0.0, 1.0), allowed=(0.0, 9.0))(lambda randomization, draw: None)
    with (
        pytest.raises(RegistryError, match=rf"randomizer .*: result: 'None' .*{__file__}:"),
        RobotEnv("reach", randomize={"lost": True}) as env,
    ):
        env.reset(seed=0)


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("object_friction", 0.5, "a tuple with a finite number, at least 0, for each of the 1 objects"),
        ("object_friction", (0.5, 0.5), "for each of the 1 objects"),
        ("object_damping", (math.nan,), "for each of the 1 objects"),
        ("object_mass", (-3.0,), "a finite number, above 0"),
        ("object_size", (0.0,), "a finite number, above 0"),
        ("joint_gain", (1.0,), "for each of the 7 joints"),
        ("joint_friction", ("a",) * 7, "for each of the 7 joints"),
        ("joint_gain", (math.inf,) * 7, "a finite number, for each of the 7 joints"),
        ("action_delay", 1.5, "a whole number, at least 0"),
        ("action_delay", -1, "a whole number, at least 0"),
        ("action_noise", -0.1, "a finite number, at least 0"),
        ("observation_noise", math.nan, "a finite number, at least 0"),
        ("color_change", math.nan, "a finite number"),
    ],
)
def test_a_value_that_no_world_can_have_is_refused_by_its_field(field: str, value: Any, allowed: str) -> None:
    register_randomizer("odd", "N", default=(0.0, 1.0), allowed=(0.0, 9.0))(
        lambda randomization, draw: replace(randomization, **{field: value})
    )
    with (
        pytest.raises(RegistryError, match=rf"randomizer .*: {field}: .*{__file__}:\d+\); allowed: .*{allowed}"),
        RobotEnv("push", randomize={"odd": True}) as env,
    ):
        env.reset(seed=0)


def test_the_limits_are_those_of_fields_and_a_joint_may_move_the_other_way() -> None:
    assert {field.name for field in fields(EpisodeRandomization)} >= LIMITS.keys()
    register_randomizer("reversed", "factor", default=(0.0, 1.0), allowed=(0.0, 9.0))(
        lambda randomization, draw: replace(randomization, joint_gain=(-1.0,) * draw.joints)
    )
    with RobotEnv("reach", randomize={"reversed": True}) as env:
        env.reset(seed=0)
        assert env.world.randomization.joint_gain == (-1.0,) * 7
