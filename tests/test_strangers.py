"""Damaged and malicious runs: every use works or ends with a clear error, and no code of the run is executed.

The normal suite tries `FEW` damages, `pytest -m slow` `MANY`.
"""

from __future__ import annotations

import base64
import copy
import io
import itertools
import json
import os
import pickle
import random
import shutil
import signal
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import mygym
from mygym.cli.main import run as command
from mygym.config import merged
from mygym.errors import ConfigError, MygymError, RunError
from mygym.training.checkpoints.checkpoints import Checkpoints
from mygym.training.checkpoints.serialization import RECEIPTS
from mygym.training.checkpoints.states import load_random_state, random_state
from mygym.training.result import Result
from tests.components import slow_except, small
from tests.test_api import assert_whole
from tests.training.checkpoints.test_checkpoints import forged

SHORT: dict[str, Any] = {
    "task_params": {"horizon": 20},
    "steps": 120,
    "n_envs": 1,
    "stop_at_success": None,
    "eval": {"every": 60, "episodes": 1, "final_episodes": 1},
    "checkpoint": {"every": 50, "keep": 2},
    "video": {"episodes": 0},
}
ALGOS: dict[str, dict[str, Any]] = {
    "sac": {"algo_params": small("sac")},
    "ppo": {"algo_params": small("ppo") | {"n_steps": 16, "batch_size": 16}, "normalize": True},
}
LONGER = {"steps": 130}
FEW, MANY = 12, 200
PATIENCE = 30
"""Seconds after which an example counts as a hang."""

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of damaged numbers that are huge


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run of each algorithm."""
    logdir = tmp_path_factory.mktemp("runs")
    return {
        algo: mygym.train(merged(SHORT, {"algo": algo, "logdir": str(logdir), **more})).path
        for algo, more in ALGOS.items()
    }


@pytest.fixture(scope="module")
def longer(originals: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The policy that each comes to when it goes on undamaged."""
    return {
        algo: (mygym.train(LONGER, resume=copy_of(path, tmp_path_factory.mktemp("longer"))).path / "policy.safetensors")
        .read_bytes()
        for algo, path in originals.items()
    }  # fmt: skip


@pytest.fixture
def run(originals: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of the run of SAC."""
    return copy_of(originals["sac"], tmp_path)


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    threads = torch.get_num_threads()
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"takes more than {PATIENCE} s"))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    torch.set_num_threads(threads)


def copy_of(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder / "run"))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file's bytes, and where links lead."""
    return {
        str(path.relative_to(folder)): str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if (path.is_symlink() or path.is_file()) and path.name != ".lock"
    }


USES: dict[str, Callable[[Path], Any]] = {
    "load": mygym.load,
    "evaluate": lambda run: mygym.evaluate(run, episodes=1),
    "resume": lambda run: mygym.train(LONGER, resume=run),
}


def refused(use: str, run: Path) -> str | None:
    """The message with which a use of a run is refused; None if it works."""
    signal.alarm(PATIENCE)
    try:
        USES[use](run)
    except MygymError as error:
        message = str(error)
    else:
        return None
    finally:
        signal.alarm(0)
    assert message
    assert len(message.splitlines()) == 1
    return message


# damaged ------------------------------------------------------------------------------------------------------------


def halved(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path, rng: random.Random) -> None:
    path.write_bytes(b"")


def flipped(path: Path, rng: random.Random) -> None:
    damaged = bytearray(path.read_bytes())
    if damaged:
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    path.write_bytes(damaged)


def overwritten(path: Path, rng: random.Random) -> None:
    damaged = bytearray(path.read_bytes())
    start = rng.randrange(len(damaged) + 1)
    damaged[start : start + 40] = rng.randbytes(40)
    path.write_bytes(damaged)


def deleted(path: Path, rng: random.Random) -> None:
    path.unlink()


def a_folder(path: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = [halved, emptied, flipped, deleted]


def damages(run: Path, count: int, rng: random.Random) -> list[tuple[str, Callable[[Path, random.Random], None]]]:
    """Files and their damage: each file and each kind of damage comes about as often."""
    files = [*sorted(contents(run)), *["config.yaml", "policy.safetensors"] * 2]
    kinds = DAMAGES if count == FEW else [*DAMAGES, flipped, flipped, overwritten, a_folder]
    order = [(file, kind) for file in files for kind in kinds]
    rng.shuffle(order)
    return [order[number % len(order)] for number in range(count // len(ALGOS))]


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_a_damaged_run_works_or_names_the_fault(
    count: int, originals: dict[str, Path], longer: dict[str, bytes], tmp_path: Path
) -> None:
    rng, ends = random.Random(count), Counter[str]()
    for algo, original in originals.items():
        for file, damage in damages(original, count, rng):
            run = copy_of(original, tmp_path)
            config = (run / "config.yaml").read_text()
            damage(run / file, rng)
            if (run / "config.yaml").is_file():
                config += (run / "config.yaml").read_text(errors="replace")  # a damaged key is told of as it is
            for use, end in used(run, algo, config, file, f"{damage.__name__} {file}", longer).items():
                ends[f"{use} {end}"] += 1
            shutil.rmtree(run)
    print(dict(ends))
    assert all(ends[f"{use} {end}"] >= count / 20 for use in USES for end in ("works", "refused")), ends


def used(run: Path, algo: str, config: str, file: str, where: str, longer: dict[str, bytes]) -> dict[str, str]:
    """Use a run with a damaged file in every way; returns whether each works or is refused."""
    before, ends = contents(run), {}
    for use in USES:
        message = refused(use, run)
        ends[use] = "works" if message is None else "refused"
        if use != "resume" or (message is not None and not (run / file).is_dir()):  # where it finds no way past
            assert contents(run) == before, f"{use}: {where}: {message}"
        if message is not None:
            assert is_named(Path(file).name, message, config), f"{use}: {where}: {message}"
        elif use == "resume":
            assert Result.read(run).status == "done", where
            if file == "config.yaml":  # another may come to something else
                assert refused("evaluate", run) is None, where
            else:
                assert (run / "policy.safetensors").read_bytes() == longer[algo], where
            if not file.startswith(("best_", "progress")):  # which stay as they are, up to where learning goes on
                assert_whole(run)
    return ends


def is_named(file: str, message: str, config: str) -> bool:
    """Whether a message names the faulty file or begins with a key of `config`."""
    key = message.partition(": ")[0]
    message = (
        file in message or "policy.safetensors: cannot be loaded" in message
    )  # of other networks than the config's
    return message if file != "config.yaml" else message or all(name in config for name in key.split("."))


@pytest.mark.parametrize("file", ["config.yaml", "policy.safetensors", "model.zip", "result.json", "monitor.csv"])
def test_a_folder_in_the_place_of_a_file_is_reported(file: str, run: Path) -> None:
    a_folder(run / file, random.Random(0))
    messages = {use: refused(use, run) for use in USES}
    assert (messages["load"] is None) == (messages["evaluate"] is None) == (file in MAY_BE_MISSING)
    assert file in messages["resume"]


@pytest.mark.parametrize(
    "pattern", ["monitor.csv", "progress.jsonl", "tensorboard/events*", "model.zip", "best_policy.safetensors"]
)
def test_resuming_changes_nothing_if_a_folder_is_in_the_place_of_a_file(pattern: str, run: Path) -> None:
    (log,) = run.glob(pattern)
    a_folder(log, random.Random(0))
    before = contents(run)
    assert log.name in str(refused("resume", run))
    assert contents(run) == before


MAY_BE_MISSING = ("model.zip", "result.json", "monitor.csv")


def test_a_run_without_a_whole_checkpoint_begins_again(run: Path, longer: dict[str, bytes], capsys: Any) -> None:
    for manifest in run.glob("checkpoints/step_*/manifest.json"):
        halved(manifest, random.Random(0))
    assert refused("resume", run) is None
    assert (run / "policy.safetensors").read_bytes() == longer["sac"]
    message = capsys.readouterr().err
    assert message.count("manifest.json is not a manifest") == 2
    assert "starts again from step 0" in message


# files beside the policy -----------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ALGOS)
def test_every_file_that_holds_a_policy_can_be_evaluated(algo: str, originals: dict[str, Path]) -> None:
    """SB3's files work with the normaliser that was saved beside them, if any."""
    run = originals[algo]
    with mygym.make_env(run) as env:
        raw, _ = env.reset(seed=3)
    for zipped, plain in (("model.zip", "policy.safetensors"), ("best_model.zip", "best_policy.safetensors")):
        first, second = mygym.load(run / zipped), mygym.load(run / plain)
        action = first.predict(raw, deterministic=True)[0]
        np.testing.assert_array_equal(action, second.predict(raw, deterministic=True)[0])
        assert bool(first.normalizer) == bool(second.normalizer) == (algo == "ppo")
        if algo == "ppo":
            assert not np.array_equal(action, first.model.predict(raw, deterministic=True)[0])
        assert mygym.evaluate(run / zipped, episodes=2) == mygym.evaluate(run / plain, episodes=2)
    np.testing.assert_array_equal(
        mygym.load(run).predict(raw, deterministic=True)[0],
        mygym.load(run / "policy.safetensors").predict(raw, deterministic=True)[0],
    )


def test_the_best_policy_has_a_separate_normaliser(originals: dict[str, Path]) -> None:
    run = originals["ppo"]
    best, last = (mygym.load(run / name).normalizer for name in ("best_model.zip", "model.zip"))
    assert best["observation"]["count"] < last["observation"]["count"]


@pytest.mark.parametrize("algo", ALGOS)
def test_a_normaliser_missing_in_the_config_is_refused(algo: str, originals: dict[str, Path], tmp_path: Path) -> None:
    run = copy_of(originals[algo], tmp_path)
    edited(run, lambda config: config.update(normalize=algo != "ppo"))
    for use in ("load", "evaluate"):
        message = refused(use, run)
        assert "policy.safetensors" in message
        assert "config.yaml has normalize:" in message
    assert "normalize: " in refused("resume", run)


def edited(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = yaml.safe_load((run / "config.yaml").read_text())
    change(config)
    (run / "config.yaml").write_text(yaml.safe_dump(config))


def test_actions_that_are_not_finite_are_reported(run: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = {key: 3e38 * tensor.sign() for key, tensor in load_file(run / "policy.safetensors").items()}
    save_file(tensors, run / "policy.safetensors")
    with pytest.raises(RunError, match=f"{run}: cannot be evaluated: .*nan"):
        mygym.evaluate(run, episodes=1)


@pytest.mark.parametrize("name", ["x" * 300, "x" * 300 + ".zip", "\0", "\0.zip", "\udcff", "", ".", "no/run", "a.zip"])
def test_what_is_no_run_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for use in USES:
        assert refused(use, name) is not None


# made to do harm ----------------------------------------------------------------------------------------------------


class Evil:
    """Unpickling it creates a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mknod, (str(self.mark),)


def payload(run: Path) -> bytes:
    return pickle.dumps(Evil(run.parent / "executed"))


CODE = "import os\nos.mknod({mark!r})\n"


def rezip(path: Path, **changes: bytes) -> None:
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()} | changes
    with zipfile.ZipFile(path, "w") as new:
        for name, content in members.items():
            new.writestr(name, content)


def pickles_in_the_data_of_zips(run: Path) -> None:
    for name in ("model.zip", "best_model.zip"):
        with zipfile.ZipFile(run / name) as file:
            data = json.loads(file.read("data"))
        serialized = base64.b64encode(payload(run)).decode()
        data |= {key: {":type:": "x", ":serialized:": serialized} for key in ("policy_class", "lr_schedule", "evil")}
        rezip(run / name, data=json.dumps(data).encode())


def pickles_as_the_weights_in_zips(run: Path) -> None:
    weights = io.BytesIO()
    torch.save({"a": Evil(run.parent / "executed")}, weights)
    for name in ("model.zip", "best_model.zip"):
        rezip(run / name, **{"policy.pth": weights.getvalue(), "pytorch_variables.pth": payload(run)})


def pickles_for_every_tensor_file(run: Path) -> None:
    for path in run.rglob("*.safetensors"):
        path.write_bytes(payload(run))


def pickles_for_every_file_of_checkpoints(run: Path) -> None:
    for path in (run / "checkpoints").rglob("*.*"):
        path.write_bytes(payload(run))


def checkpoints_of_pickles_with_the_right_checksums(run: Path) -> None:
    for path in (run / "checkpoints").glob("step_*"):
        manifest = json.loads((path / "manifest.json").read_bytes())
        forged(path, {}, **{key: manifest[key] for key in ("steps", "chunks")})
        for name in ("state.json", "tensors.safetensors"):
            (path / name).write_bytes(payload(run))


def more_files_with_pickles(run: Path) -> None:
    folders = [run, run / "checkpoints", *(run / "checkpoints").glob("step_*")]
    for folder in folders:
        for name in ("policy.pt", "policy.pth", "state.pkl", "replay_buffer.pkl", "vecnormalize.pkl", "x.npy", "x.npz"):
            (folder / name).write_bytes(payload(run))


def objects_in_the_config(run: Path) -> None:
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(f"{text}evil: !!python/object/apply:os.mknod [{run.parent / 'executed'}]\n")


def evil_module(run: Path) -> None:
    """Importable from where the process is."""
    for folder in (run, run.parent):
        (folder / "evil.py").write_text(CODE.format(mark=str(run.parent / "executed")) + "class Evil: pass\n")


NAMED_IN_CONFIG: dict[str, Callable[[dict[str, Any]], object]] = {
    "policy_kwargs.activation_fn": lambda c: c["algo_params"]["policy_kwargs"].update(activation_fn="evil.Evil"),
    "policy_kwargs.optimizer_class": lambda c: c["algo_params"]["policy_kwargs"].update(optimizer_class="evil:Evil"),
    "policy_kwargs.features_extractor_class": lambda c: c["algo_params"]["policy_kwargs"].update(
        features_extractor_class="evil.Evil"
    ),
    "replay_buffer_class": lambda c: c["algo_params"].update(replay_buffer_class="evil:Evil"),
    "replay_buffer_kwargs": lambda c: c["algo_params"].update(replay_buffer_kwargs={"env": "evil:Evil"}),
    "learning_rate": lambda c: c["algo_params"].update(learning_rate="evil:Evil"),
    "policy": lambda c: c["algo_params"].update(policy="evil:Evil"),
    "algo": lambda c: c.update(algo="evil:Evil"),
    "framework": lambda c: c.update(framework="evil:Evil"),
    "robot": lambda c: c.update(robot="evil:Evil"),
    "workspace": lambda c: c.update(workspace="../../evil"),
    "task": lambda c: c.update(task="evil:Evil"),
    "control": lambda c: c.update(control="evil:Evil"),
    "device": lambda c: c.update(device="evil:0"),
    "import": lambda c: c.update({"import": "evil"}),
}


def folders_of_algorithms_and_tasks(run: Path) -> None:
    for folder in ("algos", "envs"):
        (run / folder).mkdir()
        mark = CODE.format(mark=str(run.parent / "executed"))
        registering = "register_algorithm('sac', override=True)\nregister_task('reach', override=True)\n"
        (run / folder / "sac.py").write_text(mark)
        (run / folder / "evil.py").write_text(mark + registering)
    for name in ("conftest.py", "sitecustomize.py", "__init__.py", "mygym.py", "sac.py"):
        (run / name).write_text(mark)


def results_that_are_none(run: Path) -> None:
    content = json.loads((run / "result.json").read_text())
    content |= {"success_rate": "evil", "wall_time_s": [], "evaluations": [{"success_rate": "x"}], "path": "/"}
    (run / "result.json").write_text(json.dumps(content))


def results_of_another_kind(run: Path) -> None:
    (run / "result.json").write_text('{"status": {}, "path": "/tmp"}')


def forged_receipts(run: Path) -> None:
    pickles_in_the_data_of_zips(run)
    status = (run / "model.zip").stat()
    figures = f"{status.st_dev} {status.st_ino} {status.st_mtime_ns} {status.st_size}"
    (run / RECEIPTS).write_text(json.dumps({"model.zip": figures, "best_model.zip": "*"}))


HARMS: dict[Callable[[Path], None], set[str]] = {
    pickles_in_the_data_of_zips: set(),
    pickles_as_the_weights_in_zips: set(),
    pickles_for_every_tensor_file: {"load", "evaluate"},
    pickles_for_every_file_of_checkpoints: set(),
    checkpoints_of_pickles_with_the_right_checksums: set(),
    more_files_with_pickles: set(),
    objects_in_the_config: {"load", "evaluate", "resume"},
    folders_of_algorithms_and_tasks: set(),
    results_that_are_none: set(),
    results_of_another_kind: set(),
    forged_receipts: set(),
}
"""Damage of strangers to a run → uses of the run that are refused then: none where the damage is not read."""


def test_the_payload_works(run: Path) -> None:
    """Else nothing below could fail."""
    mark = run.parent / "executed"
    pickle.loads(payload(run))
    assert mark.exists()
    mark.unlink()
    pickles_in_the_data_of_zips(run)
    refusal = refused("load", run / "model.zip")
    assert "--trust" in refusal
    assert not mark.exists()
    with pytest.raises(RunError):
        mygym.load(run / "model.zip", trust=True)
    assert mark.exists()


def outside(run: Path) -> dict[str, bytes]:
    """Files around a run."""
    return {name: content for name, content in contents(run.parent).items() if not name.startswith("run/")}


def assert_harmless(run: Path) -> dict[str, str | None]:
    """Use a run in every way, assert that nothing changes outside it, and return the messages."""
    before = outside(run)
    messages = {use: refused(use, run) for use in USES}
    assert outside(run) == before
    assert "executed" not in before
    return messages


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_nothing_of_a_strangers_is_executed(harm: Any, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent)
    harm(run)
    messages = assert_harmless(run)
    assert {use for use, message in messages.items() if message} == HARMS[harm], messages
    if messages["resume"] is None:  # then everything in it that can run code is ours
        assert refused("load", run / "model.zip") is None
        assert not (run.parent / "executed").exists()


@pytest.mark.parametrize("left", ["everything", "no logs", "only checkpoints"])
def test_code_in_a_run_is_not_executed_where_one_stands_in_it(
    left: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders_of_algorithms_and_tasks(run)
    for path in list(run.iterdir()):
        log = path.name in ("result.json", "progress.jsonl", "monitor.csv")
        if (left != "everything" and log) or (left == "only checkpoints" and path.suffix in (".zip", ".safetensors")):
            path.unlink()
    monkeypatch.chdir(run)
    messages = assert_harmless(run)
    assert messages["resume"] is None
    assert (messages["load"] is None) == (left != "only checkpoints")


@pytest.mark.parametrize(
    "use", ["evaluate .", "evaluate final.safetensors", "train --resume .", "demos --policy . --out d"]
)
@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("inner", [".", "algos"])
def test_code_in_a_run_with_other_file_names_is_not_executed(
    use: str, weights: bool, inner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    folders_of_algorithms_and_tasks(run)
    (run / "algos" / "algos").mkdir()
    shutil.copy(run / "algos" / "evil.py", run / "algos" / "algos")
    (run / "algos" / "evil.py").write_text(f"{CODE.format(mark=run.parent / 'executed')}register_algorithm('evil')\n")
    (run / "config.yaml").write_text("algo: evil\n")
    if weights:
        (run / "final.safetensors").write_bytes(b"")
    monkeypatch.chdir(run / inner)
    words = [str(run / word) if word in (".", "final.safetensors") else word for word in use.split()]
    with pytest.raises(SystemExit) as stop:
        command(words[0], words[1:])
    assert stop.value.code == 2
    assert not (tmp_path / "executed").exists()
    if weights or "final" not in use:
        message = capfd.readouterr().err
        assert "algo: 'evil' is not a known algorithm" in message
        assert f"{run / inner / 'algos'} is not read, because it is in a run directory" in message


@pytest.mark.parametrize("name", slow_except(NAMED_IN_CONFIG, list(NAMED_IN_CONFIG)[::3].__contains__))
def test_what_a_config_names_is_not_imported(name: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil_module(run)
    for folder in (run, run.parent):
        monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(run.parent)
    edited(run, NAMED_IN_CONFIG[name])
    messages = assert_harmless(run)
    key = "algo_params" if name.startswith("policy_kwargs") else name
    assert key in messages["resume"]
    acting = [messages["load"], messages["evaluate"]]
    assert all(key in message for message in acting), acting


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("success_rate", "evil"), ("success_rate", None), ("mean_return", []), ("steps", "5"), ("wall_time_s", {})),
        *(("evaluations", 5), ("evaluations", [5]), ("evaluations", [{}]), ("evaluations", [{"success_rate": "x"}])),
    ],
)
def test_a_complete_run_whose_result_is_none_is_judged_again(
    key: str, value: Any, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps({**content, key: value}))
    with pytest.raises(SystemExit) as end:
        command("train", ["--resume", str(run)])
    captured = capsys.readouterr()
    assert end.value.code == 0, captured.err
    assert captured.out == f"run: {run}\n"
    assert json.loads((run / "result.json").read_text())[key] == content[key] or key == "wall_time_s"


IN_A_RUN = [
    *("progress.jsonl", "monitor.csv", ".lock", "checkpoints", "checkpoints/replay", "tensorboard", "result.json"),
    *("config.yaml", "policy.safetensors", "model.zip", RECEIPTS, "traceback.txt", "videos", ".model.part.zip"),
]


@pytest.mark.parametrize(
    ("name", "dangling"),
    slow_except(itertools.product(IN_A_RUN, (False, True)), lambda case: (IN_A_RUN.index(case[0]) + case[1]) % 2 == 0),
)
def test_links_lead_nowhere(name: str, dangling: bool, run: Path) -> None:
    path, target = run / name, run.parent / "outside" / "target"
    target.parent.mkdir()
    if path.exists() and not dangling:
        path.rename(target)
    elif not dangling:
        target.write_text("mine")
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(target)
    messages = assert_harmless(run)
    assert path.name in messages["resume"]
    assert str(run) in messages["resume"]
    assert target.exists() != dangling
    needed = dangling and name in ("config.yaml", "policy.safetensors")
    assert (messages["load"] is not None) == (messages["evaluate"] is not None) == needed


PIPES = ("progress.jsonl", "result.json", "config.yaml", "model.zip")


@pytest.mark.parametrize("name", slow_except([name for name in IN_A_RUN if "." in name], PIPES.__contains__))
def test_a_pipe_does_not_block(name: str, run: Path) -> None:
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    messages = assert_harmless(run)
    assert name in messages["resume"]
    assert refused("load", run / "model.zip") is not None
    if name == "result.json":
        assert Result.read(run) is None


# forged checkpoints -------------------------------------------------------------------------------------------------


def put(path: str, value: Any) -> Callable[[Any, Any], object]:
    """Sets the value at a path of keys and indices in the checkpoint's tree, or in its manifest."""

    def change(tree: Any, manifest: Any) -> None:
        *names, last = path.split("/")
        here: Any = {"tree": tree, "manifest": manifest}
        for name in names:
            here = here[int(name) if isinstance(here, list | tuple) else name]
        here[int(last) if isinstance(here, list) else last] = value

    return change


HUGE = 2**62
CHUNK = "manifest/chunks/0"
ATTRIBUTES, PARAMETERS = "tree/run/algorithm/attributes", "tree/run/algorithm/parameters"
FORGED: list[tuple[str, Any]] = [
    *(("tree/run", value) for value in (5, {}, [], None, "x", np.zeros(2))),
    *(("tree/run/seconds", value) for value in (5, {}, {"run": "x", "learning": 0}, {"run": 1, "learning": None})),
    *(("tree/run/seconds/sb3", value) for value in ("x", float("nan"), float("inf"))),
    *(("tree/run/config", value) for value in (5, {}, {"algo": 5}, {"algo": "evil:Evil"}, np.zeros(2), [["a", "b"]])),
    *(("tree/run/config/steps", value) for value in ("x", None, -5, 10**300)),
    *(("tree/run/algorithm", value) for value in (5, {}, {"parameters": {}})),
    *(
        (f"{ATTRIBUTES}/{name}", 5)
        for name in ("train", "policy", "replay_buffer", "env", "_logger", "actor", "x" * 99)
    ),
    *((f"{ATTRIBUTES}/{name}", "x") for name in ("num_timesteps", "device", "batch_size", "_episode_num", "seed")),
    *((f"{ATTRIBUTES}/num_timesteps", value) for value in (-5, 10**18, 10**300, float("nan"), np.zeros(3))),
    *((f"{ATTRIBUTES}/{name}", []) for name in ("_last_obs", "ep_info_buffer", "target_entropy", "__class__")),
    *((f"tree/run/algorithm/objects/{name}", {}) for name in ("policy", "__class__", "__dict__", "none", "_logger")),
    *((f"{PARAMETERS}/{name}", value) for name in ("policy", "actor.optimizer") for value in (5, {}, {"x": 1})),
    ("tree/run/algorithm/action_space", {"bit_generator": "MT19937", "state": {"key": np.zeros(3), "pos": HUGE}}),
    *(("tree/run/env", value) for value in (5, {}, {"envs": []}, {"envs": [5]}, {"envs": [{}] * 9})),
    *(("tree/run/env/envs/0/actions", value) for value in (5, np.zeros((2, 9)), np.full((1, 3), np.nan), "xyz")),
    *(("tree/run/env/envs/0/seed", value) for value in (-5, "x", 10**300, float("nan"))),
    *(("tree/run/env/envs/0/observation", value) for value in (5, {}, np.zeros(2))),
    *(("tree/run/callbacks", value) for value in (5, {}, {"divergence": {}})),
    *(("tree/run/callbacks/evaluations/records", value) for value in (5, "xy", [5], [{}], [{"success_rate": "x"}])),
    *(("tree/run/callbacks/evaluations/best", value) for value in (5, [], ["x", None])),
    *(("tree/run/callbacks/evaluations/next", value) for value in ("x", None, -5)),
    *(("tree/run/callbacks/evaluations/seconds", value) for value in ("x", -1e9)),
    *(("tree/run/logger", value) for value in (5, {}, {"values": 5, "counts": {}, "excluded": {}})),
    *(("tree/run/random/numpy", value) for value in (5, ("MT19937", np.zeros(624, np.uint32), HUGE, 0, 0.0), ("x",))),
    *(
        ("tree/run/random/numpy", ("MT19937", np.zeros(624, np.uint32), position, 0, 0.0))
        for position in (10**9, 625, -1, -(10**9))
    ),
    *(("tree/run/random/python", value) for value in (5, (3, (0,) * 625, None), (3, (0,) * 624 + (HUGE,), None))),
    *(("tree/run/random/torch", value) for value in (5, torch.zeros(3, dtype=torch.uint8), torch.zeros(5056))),
    *(("tree/replay", value) for value in (5, {}, [], np.zeros(2), {"size": 120, "total": 120})),
    *(("tree/replay/total", value) for value in ("x", -5, HUGE, 10**300, 1.5, float("nan"))),
    *(("tree/replay/size", value) for value in ("x", 0, -5, HUGE)),
    *(("tree/replay/whole", value) for value in (5, {"x": np.zeros(2)}, {"ep_length": np.zeros((999, 1))})),
    *(("tree/replay/infos", value) for value in (5, [5], [[5]] * 999)),
    *(("tree/replay/own", value) for value in (5, {"sample": [5]}, {"_current_ep_start": np.full(1, HUGE)})),
    *((f"{CHUNK}/start", value) for value in ("x", -5, HUGE, 10**300, None)),
    *((f"{CHUNK}/rows", value) for value in ("x", -5, HUGE, 10**300, None)),
    *((CHUNK, value) for value in (5, {}, None, {"file": "x"})),
    *(
        ("manifest/logs", value)
        for value in ({"progress.jsonl": -5}, {"progress.jsonl": "x"}, {"monitor.csv": 10**300})
    ),
    *(("manifest/logs", value) for value in ({"../outside": 5}, {"progress.jsonl": None}, 5)),
    *(("manifest/versions", value) for value in ({}, {"python": 5}, 5)),
    *(("manifest/steps", value) for value in (-5, 10**300, "x", 0)),
    *(("manifest/finished", value) for value in (False, "x", None)),
    *(("manifest/schema", value) for value in (2, None, "x")),
]


def tampered(run: Path, change: Callable[[Any, Any], object]) -> None:
    """Change the content of the newest checkpoint, with valid checksums, and remove all other checkpoints."""
    checkpoints = Checkpoints(run, 9)
    newest = checkpoints.newest(pytest.fail)
    tree = {"run": copy.deepcopy(newest.state), "replay": copy.deepcopy(newest.replay)}
    manifest = json.loads((newest.path / "manifest.json").read_bytes())
    kept = {key: manifest[key] for key in ("schema", "steps", "finished", "logs", "versions", "chunks")}
    change(tree, kept)
    for path in checkpoints.paths():
        shutil.rmtree(path)
    forged(newest.path, tree, **kept)


def test_a_checkpoint_with_new_checksums_is_accepted(run: Path, longer: dict[str, bytes]) -> None:
    """Control for the test below: it does not fail because of checksums."""
    tampered(run, lambda tree, manifest: None)
    assert refused("resume", run) is None
    assert (run / "policy.safetensors").read_bytes() == longer["sac"]


@pytest.mark.parametrize("step", [37, pytest.param(1, marks=pytest.mark.slow)])
def test_a_forged_checkpoint_is_refused_or_works(step: int, originals: dict[str, Path], tmp_path: Path) -> None:
    ends: dict[bool, int] = {True: 0, False: 0}
    for number, (path, value) in enumerate(FORGED[::step]):
        run = copy_of(originals["sac"], tmp_path / str(number))
        tampered(run, put(path, value))
        before = outside(run)
        message = refused("resume", run)
        assert outside(run) == before, (path, value)
        ends[message is None] += 1
        shutil.rmtree(run)
    assert min(ends.values()) > 0


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{ATTRIBUTES}/num_timesteps", 10**18),
        (f"{ATTRIBUTES}/num_timesteps", 119),
        (f"{ATTRIBUTES}/num_timesteps", 10**2000),
        ("tree/run/config/steps", 10**2000),
    ],
    ids=["too many steps", "too few steps", "far too many steps", "far too many steps in the config"],
)
def test_forged_counters_are_refused(path: str, value: int, run: Path) -> None:
    tampered(run, put(path, value))
    assert refused("resume", run) is not None


@pytest.mark.parametrize("position", [625, 10**9, -1])
def test_a_random_generator_does_not_read_beyond_its_memory(position: int) -> None:
    before = random_state()
    name, keys, *_ = before["numpy"]
    with pytest.raises(ValueError, match=f"{position} is not a position"):
        load_random_state({**before, "numpy": (name, keys, position, 0, 0.0)})
    load_random_state(before)


# the command line ---------------------------------------------------------------------------------------------------


def message(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of `evaluate.py`."""
    with pytest.raises(SystemExit) as end:
        command("evaluate", words)
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


def test_the_command_line_asks_for_trust(
    originals: dict[str, Path], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = message([str(run / "model.zip"), "--episodes", "1"], capsys)
    assert (code, out) == (2, "")
    assert err.startswith("error: run: ")
    assert len(err.splitlines()) == 1
    for words in (str(run / "model.zip"), "was not written by this project on this machine", "pickles", "--trust"):
        assert words in err
    for words in (
        [str(run / "model.zip"), "--trust"],
        [str(originals["sac"] / "model.zip")],
        [str(originals["sac"] / "best_model.zip")],
        [str(run / "best_policy.safetensors")],
        [str(run)],
    ):
        code, out, err = message([*words, "--episodes", "1"], capsys)
        assert (code, err) == (0, "")
        assert "success_rate" in out
    with pytest.raises(ConfigError, match="--trust"):
        mygym.evaluate(run / "best_model.zip", episodes=1)
    assert len(mygym.evaluate(run / "best_model.zip", episodes=1, trust=True).episodes) == 1


def test_a_run_that_was_resumed_here_is_trusted(run: Path) -> None:
    assert refused("load", run / "model.zip") is not None
    assert refused("resume", run) is None
    assert refused("load", run / "model.zip") is None
