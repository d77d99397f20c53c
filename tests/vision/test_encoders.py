"""An encoder gives latents of images, for observations and as the network of a policy."""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from stable_baselines3.common.utils import obs_as_tensor

import mygym
from benchmarks.kills import differences
from mygym.algos.images import FrozenExtractor
from mygym.algos.imitation import DAgger
from mygym.cli.main import main
from mygym.config import config_hash
from mygym.config.schema import ImageParams
from mygym.demonstrations import images as recording
from mygym.demonstrations.images import read_images
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.exporting.playing import play
from mygym.planning.plan import plan_from_python
from mygym.planning.resolve import resolve_config
from mygym.training.env_factory import make_vec_env
from mygym.training.model_factory import build_model
from mygym.vision.encoder import NETWORKS, VAE, Encoder, load_encoder, scaled
from mygym.vision.training import EncoderErrors, _linear, class_weights, measure_vae, pictures
from tests.training.test_images import config
from tests.training.test_resuming import stopped
from tests.vision.conftest import Refuses

SIZE = {"width": 24, "height": 16}
CAMERA = "close"
LATENTS = ["latent:close", "ee_position"]
PICTURES = ["rgbd:close", "ee_position"]


def new_encoder(kind: str = "autoencoder", **values: Any) -> Encoder:
    """An encoder that has learned nothing."""
    torch.manual_seed(0)
    arguments: dict[str, Any] = {"latents": 6} if kind == "autoencoder" else {"classes": 4, "objects": (3, 1)}
    network = NETWORKS[kind]((4, SIZE["height"], SIZE["width"]), **arguments).eval()
    known = {"component": "rgbd", "cameras": (CAMERA,), "images": ImageParams(**SIZE)}
    return Encoder(**{"network": network, **known, **values})


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encoders") / "untrained.safetensors"
    path.write_bytes(new_encoder().to_bytes())
    return path


@pytest.fixture(scope="module", params=NETWORKS)
def of_each_kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """File of an untrained encoder of each kind."""
    path = tmp_path_factory.mktemp("encoders") / f"{request.param}.safetensors"
    path.write_bytes(new_encoder(request.param).to_bytes())
    return path


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encoder") / "reach"
    config = {"task": "reach", "image_params": SIZE, "randomize": {"camera": 0.0}}
    splits = {"train": 0.6, "val": 0.1, "test": 0.3}
    mygym.record_images(config, out=path, images=100, cameras=[CAMERA], splits=splits, marker=True)
    return path


@pytest.fixture(scope="module")
def trained(dataset: Path) -> tuple[Path, list[EncoderErrors]]:
    """File and errors of an encoder after a short training by the command; a sheet is beside it."""
    path, lines = dataset.parent / "reach.safetensors", []
    errors = mygym.train_encoder(
        dataset, out=path, latents=5, steps=60, image=path.with_name("sheet.png"), report=lines.append
    )
    losses = [float(line.split()[-1]) for line in lines]
    assert len(losses) == 20
    assert min(losses) < 0.98 * losses[0]
    return path, errors


def params(file: Path, **more: Any) -> dict[str, Any]:
    return {"encoder": str(file), **more}


def numbers(env: RobotEnv, observation: Any) -> Any:
    return observation["observation"][env.components[LATENTS[0]]]


# the marker of the goal in data sets ----------------------------------------------------------------------------------


def test_images_with_the_marker_are_those_of_observations(dataset: Path) -> None:
    """The environment in `info` and the seed play the same episodes again."""
    content = json.loads((dataset / "annotations" / "instances_train.json").read_text())
    info = content["info"]
    rows = {(image["episode_seed"], image["step"]): row for row, image in enumerate(content["images"])}
    recorded = read_images(dataset, "train", 8)
    assert recorded.marker
    assert recorded.objects == ("goal",)
    pixels, goal_column, seen = pictures(recorded.images, "rgbd").pixels, recorded.categories.index("goal"), 0
    arguments = {**info["environment"], "observations": PICTURES}
    with RobotEnv(**arguments) as env:
        frames = recording._frames(env, info["seed"], [CAMERA], (24, 16), marker=True)
        for frame, _, seed, step in itertools.islice(frames, 30):
            if (seed, step) not in rows:
                continue
            row, observed = rows[seed, step], env.observe_as(env.observation_spec)
            assert isinstance(observed, dict)
            image = observed[PICTURES[0]].transpose(2, 0, 1)
            np.testing.assert_array_equal(pixels[row, :3], image[:3])
            assert np.abs(pixels[row, 3].astype(int) - image[3]).max() <= 1, "depth images hold millimetres"
            goal = frame.segmentation == frame.labels.index("goal")
            np.testing.assert_array_equal(recorded.images.classes[row] == 1 + goal_column, goal)
            if goal.any():
                seen += 1
                position = recorded.images.positions[row, goal_column]
                np.testing.assert_array_equal(position, env.goals[0, 0])
                assert np.abs(frame.points()[goal] - position).max() < 0.03
    assert seen > 5


def test_a_detector_refuses_the_marker(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data: .*goal.*without --marker"):
        mygym.train_detector(dataset, out=tmp_path / "new.safetensors", steps=1)


# training -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_short_training_reconstructs_views_that_it_has_not_seen(
    dataset: Path, trained: tuple[Path, list[EncoderErrors]]
) -> None:
    path, (errors,) = trained
    train, test = (pictures(read_images(dataset, split, 8).images, "rgbd") for split in ("train", "test"))
    (before,) = measure_vae(VAE((4, 16, 24), 5).eval(), train, test, {})
    assert (errors.camera, errors.name, errors.images) == (CAMERA, "goal", len(test.pixels))
    mean = scaled(train.pixels).mean(0)
    assert errors.reconstruction < 0.5 * before.reconstruction
    assert before.name is None
    assert errors.mean is not None
    assert errors.worst is not None
    assert 0.0 < errors.mean < errors.worst < 0.5
    encoder = load_encoder(path, "encoder")
    assert (encoder.component, encoder.cameras, encoder.network.latents) == ("rgbd", (CAMERA,), 5)
    assert encoder.images == ImageParams(**SIZE), "the marker shows the goal"
    np.testing.assert_allclose(encoder.network.standardizer.mean.numpy(), mean.numpy(), atol=1e-5)
    with Image.open(path.with_name("sheet.png")) as sheet:
        assert sheet.size[0] > 8 * SIZE["width"]
        assert sheet.size[1] > 2 * SIZE["height"]


def test_all_bodies_weigh_the_same() -> None:
    classes = np.zeros((4, 10, 10), dtype=np.uint8)
    classes[:, :3] = 2
    classes[:, 9, 9] = 1
    weights = class_weights(classes, 4, 1.0).numpy()
    totals = [weights[classes[classes == number]].sum() for number in range(3)]
    np.testing.assert_allclose(totals, totals[0], rtol=1e-5)
    np.testing.assert_allclose(weights[classes].mean(), 1.0, rtol=1e-5)
    assert class_weights(classes, 4, 0.0).tolist() == [1.0] * 4


def test_the_error_of_positions_is_that_of_the_best_linear_function() -> None:
    rng = np.random.default_rng(0)
    latents, matrix = rng.normal(2.0, 3.0, (80, 4)), rng.normal(size=(4, 3))
    of_test = rng.normal(2.0, 3.0, (7, 4))
    estimates = _linear(latents.astype(np.float32), latents @ matrix + 5.0, of_test.astype(np.float32))
    np.testing.assert_allclose(estimates, of_test @ matrix + 5.0, atol=0.05)


def test_the_command_prints_the_errors(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["encoder", "train", str(dataset), "--out", str(tmp_path / "new.safetensors"), "--steps", "1", "--json"]
    with pytest.raises(SystemExit) as exit:
        main([*words, "--component", "image", "--latents", "3"])
    assert exit.value.code == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["camera"], row["name"]) == (CAMERA, "goal")
    encoder = load_encoder(tmp_path / "new.safetensors", "encoder")
    assert encoder.network.shape == (3, 16, 24)
    assert encoder.network.latents == 3


# observations ---------------------------------------------------------------------------------------------------------


def test_observations_have_the_latents_of_the_camera(of_each_kind: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder sees the images of its size once in a step, whatever the size of the images in the observation is."""
    encoder, calls = load_encoder(of_each_kind, "encoder"), 0
    encode = Encoder.encode

    def counted(self: Encoder, view: Any) -> Any:
        nonlocal calls
        calls += 1
        return encode(self, view)

    monkeypatch.setattr(Encoder, "encode", counted)
    with (
        RobotEnv(observations=[*LATENTS, "image"], image_params=params(of_each_kind, width=40)) as env,
        RobotEnv(observations=PICTURES, image_params=SIZE) as plain,
    ):
        assert env.observation_space["observation"].shape == (encoder.network.latents + 3,)
        assert env.observation_space["image"].shape == (64, 40, 3)
        observation, seen = env.reset(seed=1)[0], plain.reset(seed=1)[0]
        calls = 0
        for step in range(1, 4):
            observation, seen = env.step(np.ones(3))[0], plain.step(np.ones(3))[0]
            with torch.no_grad():
                expected = encoder.network(scaled(seen[PICTURES[0]].transpose(2, 0, 1)[None]))[0]
            np.testing.assert_allclose(numbers(env, observation), expected.numpy(), atol=1e-6)
            assert calls == step
        moved = env.goals[0, 0] + np.array([0.1, 0.0, 0.0])
        env.move_goal(moved)
        changed = env.observe_as(env.observation_spec)
        assert np.abs(numbers(env, changed) - numbers(env, observation)).max() > 1e-5, "the marker has moved"


def test_copies_snapshots_and_states_continue_the_episode(untrained: Path) -> None:
    with RobotEnv(observations=LATENTS, image_params=params(untrained)) as env:
        env.reset(seed=0)
        actions = [env.action_space.sample() for _ in range(6)]
        for action in actions[:3]:
            env.step(action)
        snapshot, state = env.snapshot(), copy.deepcopy(env.state_dict())
        with copy.deepcopy(env) as other:
            expected = [env.step(action)[0]["observation"] for action in actions[3:]]
            np.testing.assert_array_equal([other.step(action)[0]["observation"] for action in actions[3:]], expected)
        env.restore(snapshot)
        restored = [env.step(action)[0]["observation"] for action in actions[3:]]
        np.testing.assert_allclose(restored, expected, atol=1e-2)
        env.load_state_dict(state)
        np.testing.assert_array_equal([env.step(action)[0]["observation"] for action in actions[3:]], expected)


@pytest.mark.slow
def test_processes_give_the_same_latents(untrained: Path, tmp_path: Path) -> None:
    results = []
    for env_processes in (False, True):
        settings = config("ppo", tmp_path, observations=LATENTS, image_params=params(untrained))
        env = make_vec_env(plan_from_python({**settings, "env_processes": env_processes}))
        env.seed(3)
        results.append([env.reset(), *(env.step(np.full((2, 3), 0.5, np.float32))[0] for _ in range(3))])
        env.close()
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first["observation"], second["observation"])


# networks -------------------------------------------------------------------------------------------------------------


def frozen(file: Path, logdir: Path, algo: str = "dagger", **more: Any) -> dict[str, Any]:
    """Config of a short run whose network is the encoder."""
    settings = config(algo, logdir, observations=PICTURES, image_params=SIZE, n_envs=2, **more)
    settings["algo_params"]["policy_kwargs"] |= {
        "features_extractor_class": "frozen",
        "features_extractor_kwargs": {"encoder": str(file)},
    }
    return settings


@pytest.mark.parametrize("algo", ["dagger", "sac"])
def test_features_are_the_latents_and_the_numbers(algo: str, of_each_kind: Path, tmp_path: Path) -> None:
    plan = plan_from_python(frozen(of_each_kind, tmp_path, algo))
    env = make_vec_env(plan)
    model = build_model(plan, env)
    extractors = [module for module in model.policy.modules() if isinstance(module, FrozenExtractor)]
    assert extractors
    encoder = load_encoder(of_each_kind, "encoder")
    optimizers = [module.optimizer for module in model.policy.modules() if hasattr(module, "optimizer")]
    trained = {id(value) for each in optimizers for group in each.param_groups for value in group["params"]}
    assert trained
    for extractor in extractors:
        assert not list(extractor.parameters())
        assert not any(id(value) in trained for value in extractor.buffers())
        assert {name.removeprefix("images.rgbd:close.network.") for name in extractor.state_dict()} == set(
            encoder.network.state_dict()
        )
    observations = env.reset()
    extractor = extractors[0]
    inputs: dict[str, torch.Tensor] = {}
    extractor.register_forward_pre_hook(lambda module, arguments: inputs.update(arguments[0]))
    if algo == "dagger":
        model.policy.standardize(obs_as_tensor(observations, "cpu"))
    model.policy.set_training_mode(True)
    model.predict(observations)
    image = observations[PICTURES[0]][:1]
    np.testing.assert_array_equal(inputs[PICTURES[0]][:1].numpy(), scaled(image).numpy())
    features = extractor({key: value[:1] for key, value in inputs.items()})
    with torch.no_grad():
        torch.testing.assert_close(features[:, 3:], encoder.network(scaled(image)))
    torch.testing.assert_close(features[:, :3], inputs["observation"][:1])
    env.close()


def test_a_run_on_a_frozen_encoder_is_resumed_to_the_bit_and_saved_whole(untrained: Path, tmp_path: Path) -> None:
    file = tmp_path / "encoder.safetensors"
    file.write_bytes(untrained.read_bytes())
    whole = mygym.train(frozen(file, tmp_path / "whole"))
    run = stopped(frozen(file, tmp_path / "stopped"), step=70)
    mygym.train(resume=run)
    assert differences(whole.path, run) == []
    expected = mygym.load(whole.path)
    weights, before = expected.model.policy.state_dict(), load_encoder(file, "encoder").network.state_dict()
    for name, value in before.items():
        torch.testing.assert_close(weights[f"features_extractor.images.rgbd:close.network.{name}"], value)
    with mygym.make_env(whole.path) as env:
        observation, _ = env.reset(seed=0)
    action, _ = expected.predict(observation)
    file.unlink()
    model = DAgger.load(whole.path / "model.zip")
    np.testing.assert_array_equal(model.predict(observation)[0], action)


@pytest.mark.slow
def test_an_exported_policy_contains_the_encoder(of_each_kind: Path, tmp_path: Path) -> None:
    from tests.exporting.test_playing import assert_equal_episodes

    file = tmp_path / "encoder.safetensors"
    file.write_bytes(of_each_kind.read_bytes())
    run = mygym.train(frozen(file, tmp_path / "runs")).path
    exported = mygym.export(run).path
    expected = mygym.evaluate(run, episodes=2)
    file.unlink()
    assert_equal_episodes(play(exported, episodes=2).evaluation, expected)


# bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("observations", "images", "words"),
    [
        (LATENTS, {"encoder": None}, ["image_params.encoder: None", "latent", "mygym encoder train"]),
        (["latent"], {}, ["observations", "'latent'", "latent:close", "image_params.encoder"]),
        (LATENTS, {"goal": "vector"}, ["image_params.goal: 'vector'", "allowed: image"]),
        (LATENTS, {"encoder": "nothing"}, ["image_params.encoder: 'nothing'", "does not exist"]),
    ],
    ids=str,
)
def test_latents_that_an_encoder_cannot_give_are_refused(
    observations: list[str], images: dict[str, Any], words: list[str], untrained: Path
) -> None:
    with pytest.raises(ConfigError) as error:
        RobotEnv(
            observations=observations, image_params=params(untrained, **images) if images != {} else params(untrained)
        )
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"image_params": {"width": 32, "height": 16}}, ["image_params.width: 32", "24"]),
        ({"image_params": {**SIZE, "goal": "vector"}}, ["image_params.goal: 'vector'", "image"]),
        ({"image_params": {**SIZE, "frames": 2}}, ["image_params.frames: 2", "1"]),
        ({"image_params": {**SIZE, "depth_range": [0.0, 2.0]}}, ["image_params.depth_range", "None"]),
        ({"observations": ["image:close"]}, ["observations: 'image:close'", "rgbd:close"]),
        ({"observations": ["rgbd:wrist"]}, ["observations: 'rgbd:wrist'", "rgbd:close"]),
        ({"observations": ["ee_position"]}, ["features_extractor_class: 'frozen'", "observations with images"]),
        ({"kwargs": {}}, ["features_extractor_kwargs.encoder: None", "mygym encoder train"]),
        (
            {"kwargs": {"encoder": "nothing"}},
            [f"features_extractor_kwargs.encoder: '{Path('nothing').absolute()}'", "does not exist"],
        ),
    ],
    ids=str,
)
def test_images_that_a_frozen_encoder_does_not_take_are_refused(
    changes: dict[str, Any], words: list[str], untrained: Path, tmp_path: Path
) -> None:
    settings = {**frozen(untrained, tmp_path), **changes}
    if "kwargs" in changes:
        settings["algo_params"]["policy_kwargs"]["features_extractor_kwargs"] = settings.pop("kwargs")
    with pytest.raises(ConfigError) as error:
        plan_from_python(settings)
    assert all(word in str(error.value) for word in words), error.value


def test_a_detector_is_no_encoder(tmp_path: Path) -> None:
    from tests.vision.test_detector import new_detector

    (tmp_path / "cube.safetensors").write_bytes(new_detector().to_bytes())
    with pytest.raises(ConfigError, match=r"encoder: .*does not contain an encoder.*mygym encoder train"):
        load_encoder(tmp_path / "cube.safetensors", "encoder")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("encoder test DATA --out new.safetensors", ["'test'", "train"]),
        ("encoder train DATA --out new.pt", ["out", "'new.pt'", "NAME.safetensors"]),
        ("encoder train DATA --out new.safetensors --latents 0", ["--latents", "at least 1"]),
        ("encoder train DATA --out new.safetensors --latents 5000", ["latents: 5000", "1 to 1024"]),
        ("encoder train DATA --out new.safetensors --kind vae", ["kind: 'vae'", "autoencoder, objects"]),
        ("encoder train DATA --out new.safetensors --kind objects --latents 8", ["latents: 8", "the kind autoencoder"]),
        ("encoder train DATA --out new.safetensors --component boxes", ["component: 'boxes'", "rgbd, image, depth"]),
        ("encoder train DATA --out new.safetensors --image sheet.jpg", ["image", "'sheet.jpg'", "NAME.png"]),
        ("encoder train nothing --out new.safetensors", ["data", "'nothing'", "mygym dataset vision"]),
        ("encoder train DATA --out FILE", ["out", "exists already"]),
    ],
)
def test_bad_input_of_the_command(
    command: str, words: list[str], dataset: Path, untrained: Path, refuses: Refuses
) -> None:
    refuses(command, words, {"DATA": dataset, "FILE": untrained})


def test_the_hash_of_a_config_without_an_encoder_is_as_before() -> None:
    values = resolve_config({"image_params": {"width": 80}}).values()
    before = {key: value for key, value in values["image_params"].items() if key != "encoder"}
    assert config_hash({**values, "image_params": before}) == config_hash(values)
    assert config_hash(resolve_config({"image_params": {"width": 80, "encoder": "x"}}).values()) != config_hash(values)
