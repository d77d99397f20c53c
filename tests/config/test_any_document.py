"""Any document and any flags are accepted or raise ConfigError: no traceback, hang, executed code or partial file.

The default suite tries `FEW` examples of each property; `pytest -m slow` tries `MANY`.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import math
import re
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mygym.cli.train import train as main
from mygym.config import Resolved, RunConfig, load_file
from mygym.config.loading import MAX_BYTES, MAX_DEPTH, MAX_VALUES, Dumper
from mygym.config.schedules import may_be_scheduled
from mygym.errors import ConfigError, MygymError
from mygym.planning.resolve import from_python, resolve_config
from mygym.registry import algorithm, registry
from mygym.training.env_factory import make_vec_env
from mygym.training.files import to_yaml
from mygym.training.model_factory import build_model
from tests.components import ALGORITHMS, CONTROLS, REWARDS, ROBOTS, TASKS, known
from tests.conftest import ROOT

FEW, MANY = 20, 1000
PATIENCE = 5
"""Seconds of computing after which an example counts as a hang."""

few_or_many = pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    """Fail the test if the block computes for more than `PATIENCE` seconds."""

    def give_up(*_: object) -> None:
        pytest.fail(f"takes more than {PATIENCE} s")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)  # CPU time of this process only
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def result_of(work: Callable[[], Any]) -> Any:
    """Return the result of `work`, or None if it was refused with a message of one line and exit code 2."""
    try:
        with in_time():
            return work()
    except MygymError as error:
        refusal = error
    assert refusal.exit_code == 2
    assert len(str(refusal).splitlines()) == 1, str(refusal)
    return None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder for files of the test; the working directory is a different folder that stays empty."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(
        sys, "argv", [str(ROOT / "train.py")]
    )  # the folder of this script has the algorithms of the repository
    yield tmp_path
    assert list(work.iterdir()) == []


# any bytes ----------------------------------------------------------------------------------------------------------

CODE = "!!python/object/apply:os.mkdir [code_was_run]"
# fmt: off
TOKENS = [
    "a", "b", "1", "seed", "algo_params", "robot", " ", "  ", "\n", "\n  ", "\t", "\r", "\0", "\ufeff", "\x85",
    "\u2028", ": ", ":", "- ", "-", "? ", "{", "}", "[", "]", ",", '"', "'", "|", ">", "#", "%", "@", "`", "=", "~",
    "/*", "//", "&a ", "*a", "&b ", "*b", "<<: ", "<<", "!", "!!", "!!int ", "!!float ", "!!bool ", "!!null ",
    "!!str ", "!!map ", "!!seq ", "!!set ", "!!omap ", "!!pairs ", "!!binary ", "!!timestamp ", "!!merge ",
    "!!value ", "!foo ", CODE, "!!python/name:os.system ", "---\n", "...\n", "%YAML 1.1\n", "2020-01-01",
    "2020-01-01T00:00:00Z", "12:30:45", "9" * 5000, "0x" + "f" * 5000, "0b1", "0o7", "1e999", "-1e999", ".inf",
    ".nan", "NaN", "Infinity", "1_0", "+", ".", "true", "null", "yes", '"\\ud800"', "\\ud800", '"\\u0000"', "\\", "é",
    "𝔸", "/*\n*/",
]
# fmt: on
SNIPPETS = st.text(max_size=60) | st.lists(st.sampled_from(TOKENS), max_size=12).map("".join)
TEXTS = st.builds(str.format, st.sampled_from(["{}", "a: {}", "a: [{}]", '{{"a": {}}}']), SNIPPETS)
ENCODINGS = st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16"])
BYTES = st.binary(max_size=60) | st.builds(lambda text, name: text.encode(name, "surrogatepass"), TEXTS, ENCODINGS)


@few_or_many
@pytest.mark.parametrize("name", ["any.yaml", "any.json"])
def test_any_bytes_are_a_mapping_or_refused(name: str, examples: int, folder: Path) -> None:
    path = folder / name

    @settings(max_examples=examples)
    @given(content=BYTES)
    def holds(content: bytes) -> None:
        path.write_bytes(content)
        read = result_of(lambda: load_file(path))
        assert read is None or isinstance(read, dict)

    holds()


def bomb(last: str, first: str = "[x, x, x, x]", line: str = "[*a{0}, *a{0}, *a{0}, *a{0}]", count: int = 30) -> str:
    """Return YAML lines, each of which contains the previous line several times."""
    return "\n".join([f"a0: &a0 {first}", *(f"a{i}: &a{i} {line.format(i - 1)}" for i in range(1, count)), last])


REFUSED = {
    "aliases of aliases": bomb("b: *a9", count=10),
    "aliases of aliases, very deep": bomb("b: *a29"),
    "aliases of aliases as a key": bomb("? *a29\n: 1"),
    "merges of merges": bomb("b: {<<: *a29}", "{x: 1}", "{{<<: [*a{0}, *a{0}, *a{0}, *a{0}]}}"),
    "a list in itself": "a: &a [*a]",
    "a mapping in itself": "a: &a {b: *a}",
    "a mapping in itself, by a merge": "a: &a {b: {<<: *a}}",
    "a key in itself": "? &a [*a]\n: 1",
    "brackets": "a: " + "[" * 2000,
    "braces": "a: " + "{a: " * 10_000,
    "nested": f"a: {'[' * (MAX_DEPTH + 1)}{']' * (MAX_DEPTH + 1)}",
    "dashes": "a:\n " + "- " * 20_000 + "1",
    "many values": f"a: [{'1,' * (MAX_VALUES + 1)}]",
    "many keys": "\n".join(f"k{i}: 1" for i in range(MAX_VALUES // 2)) + "\nk1: 1",
    "many bytes": "#" * (MAX_BYTES + 1),
    "digits": "a: " + "9" * 40_000,
    "digits and a letter": "a: [" + "1" * 40_000 + "x",
    "beyond 64 bits": "a: 9223372036854775808",
    "an infinite number": "a: 1e999",
    "no number": "a: {b: [.nan]}",
    "an empty integer": 'a: !!int ""',
    "an empty float": 'a: !!float ""',
    "no boolean": "a: !!bool maybe",
    "no day": "a: !!timestamp someday",
    "a day that there is not": "a: 2020-13-41",
    "a day": "a: 2020-01-01",
    "a moment": "a: 2020-01-01T00:00:00Z",
    "bytes": "a: !!binary aGVsbG8=",
    "a set": "a: !!set {b, c}",
    "a tag on the wrong node": "a: !!map [b]",
    "an unknown tag": "a: !b c",
    "code": f"a: {CODE}",
    "a function": "a: !!python/name:os.system",
    "half a character": 'a: "\\ud800"',
    "half a character as a key": '"\\ud800": 1',
    "numbers as keys": "a: {1: 2}",
    "a long number as a key": f"a: {{0x{'f' * 5000}: 2}}",
    "null as a key": "a: {~: 2}",
    "a day as a key": "a: {2020-01-01: 2}",
    "a list as a key": "a: {[b]: 2}",
    "two documents": "a: 1\n---\na: 2",
    "a key twice": "a: {b: 1, c: 2, b: 3}",
}
"""YAML that would harm the reader, or that YAML and JSON cannot both represent."""

REFUSED_JSON = {
    "brackets": '{"a": ' + "[" * 40_000,
    "brackets that are closed": '{"a": ' + "[" * 40 + "]" * 40 + "}",
    "many values": '{"a": [' + "1," * MAX_VALUES + "1]}",
    "digits": '{"a": ' + "9" * 40_000 + "}",
    "hexadecimal digits": '{"a": 0x' + "f" * 40_000 + "}",
    "infinity": '{"a": [Infinity]}',
    "no number": '{"a": -NaN}',
    "half a character": '{"a": "\\ud800"}',
    "a key twice": '{"a": {"b": 1, "b": 2}}',
    "a comment without end": "/*" + "*" * 40_000,
}


def test_a_trap_in_yaml_is_refused(folder: Path) -> None:
    for name in REFUSED:
        refused(folder / "trap.yaml", REFUSED[name])


def test_a_trap_in_json_is_refused(folder: Path) -> None:
    for name in REFUSED_JSON:
        refused(folder / "trap.json", REFUSED_JSON[name])


def refused(path: Path, text: str) -> None:
    path.write_text(text)
    with in_time(), pytest.raises(ConfigError, match=re.escape(path.name)):
        load_file(path)


def test_a_trap_in_a_flag_is_refused(folder: Path) -> None:
    for name in [name for name in REFUSED if REFUSED[name].startswith("a: ")]:
        for words in (["--set", REFUSED[name].replace(": ", "=", 1)], ["--seed", REFUSED[name][3:]]):
            with in_time(), pytest.raises(ConfigError):
                main([*words, "--explain"])


@pytest.mark.parametrize("name", ["\0.yaml", "x" * 300 + ".yaml", "\udcff.json", "no/such.yaml"])
def test_an_impossible_file_name_is_refused(name: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match="config"):
        load_file(name)


def test_merges_and_anchors_work(folder: Path) -> None:
    path = folder / "run.yaml"
    path.write_text("a: {b: &b {x: 1, <<: &c {x: 0, y: 2}}, c: {<<: *b, y: 3}, d: *b}\ne: {<<: [*b, *c], y: 4}\n")
    b = {"x": 1, "y": 2}
    assert load_file(path) == {"a": {"b": b, "c": {"x": 1, "y": 3}, "d": b}, "e": {"x": 1, "y": 4}}


# any settings -------------------------------------------------------------------------------------------------------

CLASSES = {name: algorithm(name).combo()[0] for name in ALGORITHMS}

HUGE = [2**31, 2**32, 2**63 - 1, 2**63, 10**30, 10**400, -(10**30), 1e308, 5e-324, -0.0, float("inf"), float("nan")]
NAMES = [*RunConfig.model_fields, *ALGORITHMS, *TASKS, "every", "areas", "low", "net_arch", "n_critics", "auto", "step"]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 300),
    st.floats(-2, 2),
    st.text(max_size=6),
    st.sampled_from(HUGE),
    st.sampled_from(NAMES),
    st.sampled_from([datetime.date(2020, 1, 1), b"\xff", "\ud800", "a\0b", "~nobody/x", "../x", "x" * 5000]),
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3) | st.integers(0, 2), inner, max_size=3)
    ),
    max_leaves=5,
)

COORDINATES = st.sampled_from([-1.0, -0.2, 0.0, 0.1, 0.3, 0.5, 1]) | st.floats(-2, 2)
CORNERS = st.lists(COORDINATES, min_size=3, max_size=3)
BOXES = st.fixed_dictionaries({"low": CORNERS, "high": CORNERS}) | st.builds(
    lambda low, size: {"low": low, "high": [x + size for x in low]}, CORNERS, st.floats(0, 0.2)
)
COUNTS = st.integers(1, 64)


def some(**choices: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for mappings with any of these keys."""
    return st.fixed_dictionaries({}, optional=choices)


def few(**choices: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for mappings with up to three of these keys."""
    names = st.lists(st.sampled_from(sorted(choices)), max_size=3, unique=True)
    return names.flatmap(lambda names: st.fixed_dictionaries({name: choices[name] for name in names}))


SETTINGS: dict[str, st.SearchStrategy[Any]] = {
    "robot": st.sampled_from([*ROBOTS, "panda"]),
    "task": st.sampled_from([*TASKS, "A", "AG", "AGMDW", "reach", ["approach", "push"], ["approach"]]),
    "workspace": st.sampled_from([None, *registry("workspace").names()]),
    "control": st.sampled_from([*CONTROLS, "step", "joints"]),
    "reward": st.sampled_from(REWARDS),
    "task_params": some(
        tolerance=st.floats(0.001, 0.3),
        hold=st.integers(1, 9),
        horizon=st.integers(1, 300),
        object=st.sampled_from(registry("object").names()),
        areas=st.dictionaries(st.sampled_from(["reach", "object", "surface", "air"]), BOXES, max_size=1),
    ),
    "framework": st.just("pytorch"),
    "strategy": st.just("standard"),
    "engine": st.just("pybullet"),
    "her": st.sampled_from([None, False, False, True]),
    "normalize": st.booleans(),
    "env_processes": st.just(False),
    "seed": st.integers(0, 2**32 - 1),
    "stop_at_success": st.none() | st.floats(0.01, 1),
    "eval": some(every=COUNTS, episodes=COUNTS, final_episodes=COUNTS),
    "checkpoint": some(every=COUNTS, keep=COUNTS),
    "video": some(episodes=st.integers(0, 9), width=st.just(64), height=st.just(48), camera=st.just("main")),
    "tensorboard": st.booleans(),
    "device": st.just("cpu"),
    "threads": st.integers(1, 2),
    "logdir": st.text(max_size=6) | st.sampled_from(["runs", "läufe", "走", "2020-01-01", "null", "1e3", "~", "a: b"]),
    "strict": st.sampled_from([False] * 9 + [True]),
}
"""Mostly valid values of every key except `algo`, `algo_params`, `n_envs` and `steps`."""

LAYERS = st.lists(st.sampled_from([8, 16, 64, 64, 0, -1, 2.5, "64", None]), max_size=2)
SMALL = st.sampled_from([1, 2, 5, 16, 64, 1, 2, 0, -1])
PARAMS: dict[str, st.SearchStrategy[Any]] = {
    "buffer_size": st.integers(1, 9000),
    "learning_starts": st.integers(0, 900),
    "train_freq": st.sampled_from([1, 4, [2, "step"], [1, "episode"], [1, "day"], [0, "step"], ["1", "step"], [], 0]),
    "ent_coef": st.sampled_from(["auto", "auto_0.1", 0.1, 0, -1.0, "auto_x", "auto_-1", "x", "auto_nan"]),
    "target_entropy": st.sampled_from(["auto", -3.0, 0, "x", "nan"]),
    "action_noise": st.sampled_from([None, 0.1, 0, -1.0, "x"]),
    "policy_kwargs": st.none()
    | few(
        net_arch=LAYERS | st.sampled_from([{"pi": [8], "qf": [8]}, {"pi": [8], "vf": [8]}, {"pi": 3}, {"qf": []}, "x"]),
        activation_fn=st.just("relu"),
        optimizer_class=st.just("adam"),
        optimizer_kwargs=some(eps=st.sampled_from([1e-5, -1, "x"]), fused=st.booleans(), lr=st.just(1), x=st.just(1)),
        n_critics=st.integers(0, 3),
        n_quantiles=st.integers(-1, 30),
        share_features_extractor=st.booleans(),
        share_features_extractors=st.booleans(),
        normalize_images=st.booleans(),
        log_std_init=st.sampled_from([-2, 0.5, "x", 5000]),
        use_expln=st.booleans(),
        squash_output=st.booleans(),
        ortho_init=st.booleans(),
        features_extractor_kwargs=some(cnn_output_dim=SMALL, x=SMALL),
        lstm_hidden_size=SMALL,
        n_lstm_layers=st.integers(-1, 2),
        shared_lstm=st.booleans(),
        enable_critic_lstm=st.booleans(),
        lstm_kwargs=some(dropout=st.sampled_from([0.1, 2, "x"])),
        batch_norm_momentum=st.floats(-1, 1),
        with_bias=st.booleans(),
    ),
    "replay_buffer_kwargs": st.none()
    | few(
        n_sampled_goal=st.sampled_from([4, 0, -1, "x"]),
        goal_selection_strategy=st.sampled_from(["future", "final", "episode", "x", 3]),
        copy_info_dict=st.booleans(),
        handle_timeout_termination=st.booleans(),
        x=SMALL,
    ),
    "rollout_buffer_kwargs": st.none() | some(gae_lambda=st.just(0.9), x=SMALL),
}
"""Values of the hyperparameters whose type does not follow from their default."""


ENDS = st.floats(0, 1) | st.sampled_from([1e-3, 1e-3, 0, -1, "x"])
SCHEDULES = st.fixed_dictionaries(
    {"schedule": st.sampled_from(["linear", "cosine", "exponential", "inverse", "constant", "linaer"])},
    optional={"from": ENDS, "to": ENDS, "value": ENDS, "start": SMALL, "until": st.integers(1, 9000), "x": SMALL},
) | st.fixed_dictionaries(
    {
        "schedule": st.just("piecewise"),
        "points": st.lists(st.tuples(st.integers(0, 5000), ENDS).map(list), max_size=3).map(
            lambda points: sorted(points, key=lambda point: point[0])
        ),
    }
)


def hyperparameter(cls: type, name: str) -> st.SearchStrategy[Any]:
    """Return a strategy for mostly valid values, none of which needs much memory or time."""
    schedulable = name in may_be_scheduled(cls)
    return st.one_of(number_or_other(cls, name), SCHEDULES) if schedulable else number_or_other(cls, name)


def number_or_other(cls: type, name: str) -> st.SearchStrategy[Any]:
    """Return the same strategy as `hyperparameter`, without schedules."""
    if name in PARAMS:
        return PARAMS[name]
    default = known(cls)[name].default
    if isinstance(default, bool):
        return st.booleans()
    if isinstance(default, int):
        return COUNTS | SMALL
    if isinstance(default, float):
        return st.floats(0, 1) | st.sampled_from([0, 1, -1.0, 5.0, 1e-12])
    return st.sampled_from([None, 1, 0.5])


@st.composite
def mostly_valid_documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw settings whose types and ranges are mostly valid; their combination may be invalid."""
    document: dict[str, Any] = draw(some(**SETTINGS))
    document |= {"n_envs": draw(st.integers(1, 2)), "steps": draw(st.integers(1, 5000))}
    algo = document["algo"] = draw(st.sampled_from(ALGORITHMS))
    cls = CLASSES[algo]
    names = draw(st.lists(st.sampled_from(sorted(known(cls))), max_size=4, unique=True))
    document["algo_params"] = {name: draw(hyperparameter(cls, name)) for name in names}
    return document


@st.composite
def spoiled_documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw mostly valid settings with a few arbitrary values or unknown keys at any depth."""
    document = draw(mostly_valid_documents())
    for _ in range(draw(st.integers(1, 3))):
        section: Any = document
        while isinstance(section, dict) and section:
            key = draw(st.sampled_from(sorted(section, key=str)))
            if not isinstance(section[key], dict) or not section[key] or draw(st.booleans()):
                section[draw(st.sampled_from([key, key, key, *NAMES]))] = draw(ANYTHING)
                break
            section = section[key]
    return document


NONSENSE = st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=4)
DOCUMENTS = st.one_of(*(mostly_valid_documents() for _ in range(4)), spoiled_documents(), spoiled_documents(), NONSENSE)
SUFFIXES = st.sampled_from([".yaml", ".json"])


def write(folder: Path, suffix: str, document: Mapping[str, Any]) -> Path:
    """Write the document to a file and return its path; in JSON, dates and bytes become text."""
    path = folder / f"config{suffix}"
    path.write_text(yaml.safe_dump(document) if suffix == ".yaml" else json.dumps(document, default=str))
    return path


def is_small(config: RunConfig) -> bool:
    """Return whether a run of this config is built quickly, with little memory, in this process."""
    largest = max([0, config.steps, *map(abs, numbers(config.algo_params))])
    few = config.n_envs <= 2 and config.threads <= 2 and (config.task_params.horizon or 0) <= 1000
    return largest <= 10_000 and few and config.device == "cpu" and not config.env_processes


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from numbers(inner)
    elif isinstance(value, int | float):
        yield value


def build(config: RunConfig) -> bool:
    env = make_vec_env(config)
    try:
        build_model(config, env)
    finally:
        env.close()
    return True


@pytest.fixture
def threads() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@few_or_many
@pytest.mark.usefixtures("threads")
def test_any_document_is_built_or_refused(examples: int, folder: Path) -> None:
    outcomes: Counter[str] = Counter()

    @settings(max_examples=examples)
    @given(document=DOCUMENTS, suffix=SUFFIXES)
    def holds(document: dict[str, Any], suffix: str) -> None:
        path = write(folder, suffix, document)
        resolved = result_of(lambda: resolve_config(load_file(path)))
        outcomes["all"] += 1
        if resolved is None:
            outcomes["refused"] += 1
        elif not is_small(resolved.config):
            outcomes["resolved"] += 1
        else:
            outcomes["resolved"] += 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # SB3 warns about unusual values
                outcomes["built" if result_of(lambda: build(resolved.config)) else "not built"] += 1
        assert [file.name for file in folder.iterdir() if file.is_dir()] == ["work"]
        assert not any((folder / "work").iterdir())

    holds()
    print(dict(outcomes))
    assert outcomes["resolved"] >= 0.1 * outcomes["all"], outcomes
    assert outcomes["built"] >= 0.05 * outcomes["all"], outcomes
    assert outcomes["refused"] >= 0.1 * outcomes["all"], outcomes


@few_or_many
def test_a_resolved_config_resolves_to_itself(examples: int, folder: Path) -> None:
    """From the config.yaml of the run, from JSON, and from Python."""
    outcomes: Counter[str] = Counter()

    @settings(max_examples=examples)
    @given(document=DOCUMENTS, suffix=SUFFIXES)
    def holds(document: dict[str, Any], suffix: str) -> None:
        path = write(folder, suffix, document)
        resolved = result_of(lambda: resolve_config(load_file(path)))
        outcomes["resolved" if resolved else "refused"] += 1
        if resolved is not None:
            assert_resolves_to_itself(resolved, folder)

    holds()
    print(dict(outcomes))
    assert outcomes["resolved"] >= 0.2 * outcomes.total(), outcomes


def assert_resolves_to_itself(resolved: Resolved, folder: Path) -> None:
    values = resolved.values()
    (folder / "config.yaml").write_text(yaml.dump(values, Dumper=Dumper, sort_keys=False))
    (folder / "config.json").write_text(json.dumps(values))
    again = [resolve_config(load_file(folder / name)) for name in ("config.yaml", "config.json")]
    for other in (*again, from_python(values), from_python(resolved.config)):
        assert json.dumps(other.values()) == json.dumps(values)  # 1, 1.0 and true differ
        assert other.config == resolved.config


def endless() -> dict[str, Any]:
    inner: dict[str, Any] = {}
    inner["inner"] = inner
    return inner


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"algo_params": {"policy_kwargs": {"x": math.nan}}}, ["algo_params.policy_kwargs.x", "nan", "finite"]),
        ({"algo_params": {"policy_kwargs": {"activation_fn": dict}}}, ["algo_params.policy_kwargs.activation_fn"]),
        ({"algo_params": {"learning_rate": lambda progress: 1e-3}}, ["algo_params.learning_rate", "function"]),
        ({"algo_params": {"policy_kwargs": {"x": {1, 2}}}}, ["algo_params.policy_kwargs.x", "set"]),
        ({"algo_params": {"policy_kwargs": {"x": {1: 2}}}}, ["algo_params.policy_kwargs.x", "1", "string"]),
        ({"algo_params": {"policy_kwargs": endless()}}, ["algo_params", "deep"]),
        ({"algo_params": {"policy_kwargs": {"x": [0] * (MAX_VALUES + 1)}}}, ["algo_params", "more than"]),
        ({"algo_params": {"learning_rate": 10**5000}}, ["algo_params.learning_rate", "large"]),
        ({"algo_params": {"learning_rate": 1e300}}, ["algo_params.learning_rate", "1e+300", "float32"]),
        ({"algo_params": {"ent_coef": "auto_nan"}}, ["algo_params.ent_coef", "auto_nan", "a number, auto"]),
        ({"algo_params": {"ent_coef": "-1"}}, ["algo_params.ent_coef", "-1", "a number, auto"]),
        ({"algo_params": {"train_freq": [0, "step"]}}, ["algo_params.train_freq", "[0, 'step']", "at least 1"]),
        ({"algo_params": {"train_freq": ["1", "step"]}}, ["algo_params.train_freq", "['1', 'step']", "a whole number"]),
        ({"algo_params": {"train_freq": [1]}}, ["algo_params.train_freq", "[1]", "[a whole number, text]"]),
        ({"algo_params": {"train_freq": [1, "episode"]}, "n_envs": 2}, ["algo_params.train_freq", "n_envs"]),
        ({"algo_params": {"stats_window_size": -1}}, ["algo_params.stats_window_size", "-1", "at least 1"]),
        ({"algo": "trpo", "algo_params": {"sub_sampling_factor": 2}}, ["algo_params.sub_sampling_factor", "2"]),
        ({"algo_params": {"replay_buffer_kwargs": {"n_sampled_goal": -1}}}, ["n_sampled_goal", "-1", "at least 0"]),
        ({"device": "meta"}, ["device", "'meta'", "cpu"]),
        ({"device": "hpu"}, ["device", "'hpu'", "cpu"]),
        ({"logdir": "\ud800"}, ["logdir", "UTF-8"]),
        ({"nobody": {"knows": 1}}, ["nobody", "(argument)"]),
    ],
    ids=lambda value: str(value)[:50] if isinstance(value, list) else "",
)
def test_values_that_would_fail_later_are_refused_immediately(values: dict[str, Any], words: list[str]) -> None:
    with in_time(), pytest.raises(ConfigError) as error:
        from_python(values)
    for word in words:
        assert word in str(error.value)
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize("text", ["1e3", "0E0", "3e-4"])
def test_text_that_looks_like_a_number_remains_text(text: str, folder: Path) -> None:
    (folder / "config.yaml").write_text(to_yaml(resolve_config(overrides={"logdir": text}).values()))
    assert resolve_config(load_file(folder / "config.yaml")).config.logdir == text


# any flags ----------------------------------------------------------------------------------------------------------


def output_of(words: list[str]) -> str | None:
    """Return the output of the command line, or None if it refuses."""
    out = io.StringIO()

    def work() -> str:
        code: Any = 0
        with contextlib.redirect_stdout(out):
            try:
                main(words)
            except SystemExit as end:  # --help
                code = end.code
        assert code == 0
        return out.getvalue()

    printed = result_of(work)
    assert printed is not None or out.getvalue() == ""
    return None if printed is None else str(printed)


FLAGS = sorted(
    set(re.findall(r"--[a-z][a-z_-]*", output_of(["--help"]) or "")) | {"--n_envs", "-h", "--", "-", "--robott"}
)
FILES = {
    "good.yaml": "robot: kuka\nseed: 3\nalgo_params: {gamma: 0.9}\n",
    "good.json": '{"task": "push", "eval": {"every": 7}}',
    "code.yaml": f"robot: {CODE}",
    "bomb.yaml": REFUSED["merges of merges"],
    "list.json": "[1]",
}
KEYS = [
    *RunConfig.model_fields,
    "eval.every",
    "algo_params.gamma",
    "algo_params.net_arch",
    "task_params.areas.reach.low",
]
TEXT = st.text(max_size=6) | st.sampled_from(
    [
        *NAMES,
        *TOKENS,
        *ROBOTS,
        "0",
        "1",
        "7",
        "1e3",
        "-1",
        "[approach, push]",
        "[64, 64]",
        "{every: 5}",
        "",
        " ",
        "\udcff",
    ]
)
PAIRS = st.builds("{}={}".format, st.sampled_from(KEYS) | st.lists(st.sampled_from(NAMES)).map(".".join), TEXT)
PATHS = st.sampled_from([f"../{name}" for name in FILES] + ["missing.yaml", "..", "\0.yaml", "x.toml"])
RIGHT = [
    *(["--robot", "kuka"], ["--algo", "ppo"], ["--task", "push"], ["--seed", "5"], ["--n-envs", "2"], ["--steps", "9"]),
    *(["--reward", "dense"], ["--set", "algo_params.gamma=0.9"], ["--set", "eval.every=5"], ["--config=../good.yaml"]),
    *(
        ["--config", "../good.json"],
        ["--task", "[approach, push]"],
        ["--set", "task_params={hold: 2}"],
        ["--logdir", "é"],
    ),
]
ANY_WORDS = st.one_of(
    st.sampled_from(RIGHT),
    st.tuples(st.sampled_from(FLAGS), TEXT).map(list),
    st.tuples(st.sampled_from(FLAGS), TEXT).map(lambda pair: ["=".join(pair)]),
    st.tuples(st.just("--set"), PAIRS).map(list),
    st.tuples(st.just("--config"), PATHS).map(list),
    TEXT.map(lambda word: [word]),
)
LINES = st.lists(st.sampled_from(RIGHT), max_size=3) | st.lists(st.sampled_from(RIGHT) | ANY_WORDS, max_size=4)


@pytest.mark.parametrize(
    "words",
    [
        [""],
        [" "],
        ["\x85"],
        ["--set", "a\nb=["],
        ["--set", "a." * 5000 + "a=1"],
        ["--seed", "&a {a: *a}", "--set", "seed=&a {a: *a}"],
        ["--config", "\0.yaml"],
    ],
)
def test_unusual_arguments_are_refused(words: list[str], folder: Path) -> None:
    assert output_of(["--explain", *words]) is None


@few_or_many
def test_any_flags_are_explained_or_refused(examples: int, folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).write_text(text)
    outcomes: Counter[str] = Counter()

    @settings(max_examples=examples)
    @example(line=[["--import", "\r"]])
    @given(line=LINES)
    def holds(line: list[list[str]]) -> None:
        printed = output_of(["--explain", *(word for words in line for word in words)])
        outcomes["refused" if printed is None else "explained"] += 1
        assert not any((folder / "work").iterdir())  # CODE would make a folder in it

    holds()
    print(dict(outcomes))
    assert outcomes["explained"] >= 0.1 * outcomes.total(), outcomes
    assert outcomes["refused"] >= 0.1 * outcomes.total(), outcomes
