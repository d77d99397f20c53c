"""Time of a rendering, steps per second with images, policies from pixels, a detector of objects, and an encoder.

    python benchmarks/vision.py speed > benchmarks/results/vision.md
    python benchmarks/vision.py frames
    python benchmarks/vision.py learn reach --seeds 1
    python benchmarks/vision.py detect --seeds 3
    python benchmarks/vision.py encode
    python benchmarks/vision.py places push --seeds 3

`speed` measures the Panda scene at 64 x 64: colours, depth and segmentation of one rendering, and env steps/s of
`reach` with images, medians over rounds. `frames` compares a rendering with that of panda-gym (`pip install panda-gym`)
in pairs. `learn` trains `--algo dagger` and prints the success of 100 fresh episodes,
env steps and wall time of each seed. `detect` trains detectors of the cube of `pick_and_place` on randomized views, and
a policy of the config `pick_and_place_on_detections.yaml`; it prints the detectors' errors on views of other episodes,
and the success of 100 fresh episodes of the policy with the simulator's positions and with those of each detector;
the same for `push`, in other sizes, and in episodes whose light, colours and camera vary.
`encode` trains an encoder on views of `reach`, and a policy on its latents with `--algo dagger`; it prints the errors
of the encoder and the success of 100 fresh episodes. `places` does so with encoders of objects for each seed, while
light, colours and camera vary between episodes.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mygym.config.loading import load_file

OBSERVATIONS: dict[str, list[str]] = {
    "`image`": ["image"],
    "`image`, `depth`, `segmentation`": ["image", "depth", "segmentation"],
    "`rgbd:close`": ["rgbd:close"],
    "`image`, `image:wrist`": ["image", "image:wrist"],
}
"""Observations of `reach`, each with the end effector's position."""

SEEN = {
    "reach": ["rgbd:close", "ee_position"],
    "push": ["rgbd:close", "ee_position", "ee_velocity", "command_offset"],
    "pick_and_place": ["rgbd:close", "rgbd:wrist", "ee_position", "ee_velocity", "command_offset", "gripper_width"],
}
"""Observations from which `learn` learns each task."""

LEARNING = {"batch_size": 64, "learning_rate": {"schedule": "linear", "from": 2e-3, "to": 1e-5}}
RANDOMIZED: dict[str, Any] = {
    "randomize": dict.fromkeys(("light", "colors", "camera"), True),
    "algo_params": {"policy_kwargs": {"features_extractor_kwargs": {"local_contrast": True, "color_jitter": 0.3}}},
}
"""Changes of the config for randomized light, colours and camera; the number of steps is doubled, too."""

CONFIG = Path(__file__).parents[1] / "configs" / "pick_and_place_on_detections.yaml"
STEPS = {"reach": 12_000, "push": 28_000, "pick_and_place": 26_000}


def seconds(call: Callable[[], Any], count: int, rounds: int) -> float:
    """Return the median time of a call."""
    call()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - begin) / count)
    return statistics.median(times)


def speed(count: int, rounds: int) -> None:
    """Print the tables of times."""
    import mygym

    print("# Images: time of a rendering, and policies from pixels\n")
    shared = f"{os.cpu_count()} cores shared with other programs, load {os.getloadavg()[0]:.1f}"
    print(f"`python benchmarks/vision.py speed`; {platform.machine()}, {shared}, one process, one thread.\n")
    print("| camera, 64 x 64, colours + depth + segmentation | ms |\n|---|---:|")
    with mygym.make_env({"task": "pick_and_place"}) as env:
        env.reset(seed=0)
        for camera in sorted(env.world.cameras):
            print(f"| `{camera}` | {1e3 * seconds(partial(env.capture, camera=camera), count, rounds):.2f} |")
    print("\n| observations of `reach`, with `ee_position` | env steps/s |\n|---|---:|")
    for name, images in OBSERVATIONS.items():
        with mygym.make_env({"task": "reach", "observations": [*images, "ee_position"]}) as env:
            env.reset(seed=0)
            env.set_horizon(10**9)
            action = np.zeros(env.action_space.shape, dtype=np.float32)
            print(f"| {name} | {1 / seconds(partial(env.step, action), count, rounds):.0f} |")


def frames(count: int, rounds: int) -> None:
    """Print the time of a frame of the scene of `pick_and_place`, and of panda-gym's frame, in alternation."""
    import gymnasium
    import panda_gym  # noqa: F401  (registers its ids)

    import mygym

    size: dict[str, Any] = {"render_width": 64, "render_height": 64}
    other = gymnasium.make("PandaPickAndPlace-v3", render_mode="rgb_array", renderer="Tiny", **size)
    other.reset(seed=0)
    with mygym.make_env({"task": "pick_and_place"}) as env:
        env.reset(seed=0)
        pairs = [(seconds(env.capture, count, 1), seconds(other.render, count, 1)) for _ in range(rounds)]
    other.close()
    times, other_times = np.transpose(pairs)
    ratios = other_times / times
    print("| 64 x 64 | colours | depth, segmentation | ms |\n|---|---|---|---:|")
    print(f"| mygym | yes | yes | {1e3 * np.median(times):.2f} |")
    print(f"| panda-gym {version('panda-gym')} | yes | no | {1e3 * np.median(other_times):.2f} |")
    print(f"\nRatio in a round: {np.median(ratios):.1f}, {ratios.min():.1f} to {ratios.max():.1f} ({rounds} rounds).")


def train(task: str, observations: list[str], steps: int, episodes: int, seed: int, logdir: str, **changes: Any) -> Any:
    """Train a policy by `dagger`, with evaluations of so many episodes; return its result."""
    import mygym

    settings = {"algo": "dagger", "task": task, "observations": observations, "steps": steps, **changes}
    evaluation = {"every": steps // 4, "episodes": episodes}
    return mygym.train({**settings, "eval": evaluation, "video": {"episodes": 0}, "seed": seed, "logdir": logdir})


def percent(success_rate: float | None) -> str:
    """Return a success rate in percent."""
    return f"{100 * (success_rate or 0.0):.0f} %"


def learn(task: str, seeds: int, randomized: bool) -> None:
    """Train a policy from pixels for each seed, and print its success."""
    changes = dict(RANDOMIZED) if randomized else {}
    changes["algo_params"] = LEARNING | changes.get("algo_params", {})
    steps = STEPS[task] * (2 if randomized else 1)
    print("| task | seed | success of 100 fresh episodes | env steps | wall time, s |\n|---|---:|---:|---:|---:|")
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as logdir, contextlib.redirect_stderr(io.StringIO()):
            result = train(task, SEEN[task], steps, 20, seed, logdir, **changes)
        success = percent(result.success_rate)
        print(f"| `{task}` | {seed} | {success} | {result.steps:,} | {result.wall_time_s:.0f} |", flush=True)


def detect(task: str, seeds: int, images: int, steps: int, pixels: int, randomized: bool) -> None:
    """Train detectors, and print their errors and the success of a policy that acts on their positions."""
    import mygym

    size = {"width": pixels, "height": pixels}
    config = {**load_file(CONFIG), "task": task, "video": {"episodes": 0}}
    if task == "push":
        config["observations"] = [name for name in config["observations"] if name != "gripper_width"]
    if randomized:
        config["randomize"] = RANDOMIZED["randomize"]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        data, begin = Path(folder, "data"), time.perf_counter()
        cameras = ["close", "wrist"]
        mygym.record_images({"task": task, "image_params": size}, out=data, images=images, cameras=cameras)
        print(f"{images:,} images of {pixels} x {pixels} pixels: {time.perf_counter() - begin:.0f} s", flush=True)
        run = mygym.train({**config, "logdir": folder})
        success_rate = f"{percent(run.success_rate)} with the simulator's positions"
        print(f"policy: {success_rate}, {run.steps:,} env steps, {run.wall_time_s:.0f} s\n", flush=True)
        print("| seed | training, s | camera | seen | mean error, cm | 95th percentile, cm | overlap | success |")
        print("|---:|---:|---|---:|---:|---:|---:|---:|", flush=True)
        for seed in range(seeds):
            file, begin = Path(folder, f"{seed}.safetensors"), time.perf_counter()
            errors = mygym.train_detector(data, out=file, steps=steps, seed=seed)
            duration = time.perf_counter() - begin
            success = mygym.evaluate(run.path, detector=file).success_rate
            for row in errors:
                numbers = [100 * (value or np.nan) for value in (row.mean, row.worst)]
                error = " | ".join(f"{number:.2f}" for number in numbers)
                print(f"| {seed} | {duration:.0f} | `{row.camera}` | {100 * row.seen:.1f} % | {error} | ", end="")
                print(f"{row.overlap or 0.0:.2f} | {100 * success:.0f} % |", flush=True)


def encode(images: int, steps: int, seed: int) -> None:
    """Train an encoder and a policy on its latents, and print the encoder's errors and the policy's success."""
    import mygym

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        data, file, begin = Path(folder, "data"), Path(folder, "encoder.safetensors"), time.perf_counter()
        config = {"task": "reach", "randomize": {"camera": 0.0}}  # nothing is randomized
        mygym.record_images(config, out=data, images=images, cameras=["close"], marker=True)
        recorded = time.perf_counter()
        (errors,) = mygym.train_encoder(data, out=file, steps=steps, seed=seed)
        trained = time.perf_counter()
        print("| | s | result |\n|---|---:|---|")
        print(f"| {images:,} images | {recorded - begin:.0f} | |")
        figures = [f"{100 * (value or np.nan):.2f} cm" for value in (errors.mean, errors.worst)]
        result = f"position of the goal: mean error {figures[0]}, 95th percentile {figures[1]}"
        print(f"| encoder, {steps:,} minibatches | {trained - recorded:.0f} | {result} |", flush=True)
        changes = {"image_params": {"encoder": str(file)}, "algo_params": LEARNING}
        run = train("reach", ["latent:close", "ee_position"], STEPS["reach"], 20, seed, folder, **changes)
        success = f"{percent(run.success_rate)} of 100 fresh episodes"
        print(f"| policy, {run.steps:,} env steps | {run.wall_time_s:.0f} | {success} |", flush=True)


def places(task: str, seeds: int, images: int, steps: int) -> None:
    """Train encoders of objects and policies on their latents, and print the errors and the policies' success."""
    import mygym

    cameras = ["close", "wrist"]
    observations = [*(f"latent:{camera}" for camera in cameras), *(name for name in SEEN[task] if ":" not in name)]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        data, begin = Path(folder, "data"), time.perf_counter()
        mygym.record_images({"task": task}, out=data, images=images, cameras=cameras, marker=True)
        print(f"{images:,} images: {time.perf_counter() - begin:.0f} s\n")
        print("| task | seed | encoder, s | errors of positions, cm | success | env steps | policy, s |")
        print("|---|---:|---:|---|---:|---:|---:|", flush=True)
        for seed in range(seeds):
            file, begin = Path(folder, f"{seed}.safetensors"), time.perf_counter()
            errors = mygym.train_encoder(data, out=file, kind="objects", steps=steps, seed=seed)
            duration = time.perf_counter() - begin
            changes = {
                "image_params": {"encoder": str(file)},
                "randomize": RANDOMIZED["randomize"],
                "algo_params": {"learning_rate": LEARNING["learning_rate"]},
            }
            run = train(task, observations, STEPS[task], 40, seed, folder, **changes)
            cells = [f"`{row.name}` by `{row.camera}` {100 * (row.mean or np.nan):.1f}" for row in errors]
            of_encoder = f"| `{task}` | {seed} | {duration:.0f} | {', '.join(cells)} "
            of_policy = f"| {percent(run.success_rate)} | {run.steps:,} | {run.wall_time_s:.0f} |"
            print(f"{of_encoder}{of_policy}", flush=True)


def main() -> None:
    """Measure speed, or train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    timers = {
        "speed": (speed, kinds.add_parser("speed", help="time of renderings and steps")),
        "frames": (frames, kinds.add_parser("frames", help="time of a rendering, beside panda-gym")),
    }
    for _, timer in timers.values():
        timer.add_argument("--count", type=int, default=200, metavar="N", help="calls in a round (default 200)")
        timer.add_argument("--rounds", type=int, default=7, metavar="N", help="rounds (default 7)")
    of_learning = kinds.add_parser("learn", help="policies from pixels")
    of_learning.add_argument("task", choices=sorted(SEEN))
    of_learning.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds (default 1)")
    of_learning.add_argument("--randomized", action="store_true", help="randomize light, colours and camera")
    of_detector = kinds.add_parser("detect", help="a detector of objects")
    of_detector.add_argument("--task", choices=("pick_and_place", "push"), default="pick_and_place", help="the task")
    of_detector.add_argument("--pixels", type=int, default=96, metavar="N", help="edge of the images (default 96)")
    of_detector.add_argument("--randomized", action="store_true", help="randomize light, colours and camera")
    of_detector.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds of the detector (default 3)")
    of_detector.add_argument("--images", type=int, default=4000, metavar="N", help="images (default 4000)")
    of_detector.add_argument("--steps", type=int, default=1500, metavar="N", help="minibatches (default 1500)")
    of_encoder = kinds.add_parser("encode", help="an encoder of images")
    of_encoder.add_argument("--images", type=int, default=3000, metavar="N", help="images (default 3000)")
    of_encoder.add_argument("--steps", type=int, default=3000, metavar="N", help="minibatches (default 3000)")
    of_encoder.add_argument("--seed", type=int, default=0, metavar="S", help="seed (default 0)")
    of_places = kinds.add_parser("places", help="encoders of objects, while light, colours and camera vary")
    of_places.add_argument("task", choices=sorted(SEEN))
    of_places.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds (default 1)")
    of_places.add_argument("--images", type=int, default=4000, metavar="N", help="images (default 4000)")
    of_places.add_argument("--steps", type=int, default=1500, metavar="N", help="minibatches (default 1500)")
    arguments = parser.parse_args()
    if arguments.kind in timers:
        timers[arguments.kind][0](arguments.count, arguments.rounds)
    elif arguments.kind == "detect":
        of_images = arguments.images, arguments.steps, arguments.pixels
        detect(arguments.task, arguments.seeds, *of_images, arguments.randomized)
    elif arguments.kind == "places":
        places(arguments.task, arguments.seeds, arguments.images, arguments.steps)
    elif arguments.kind == "encode":
        encode(arguments.images, arguments.steps, arguments.seed)
    else:
        learn(arguments.task, arguments.seeds, arguments.randomized)


if __name__ == "__main__":
    main()
