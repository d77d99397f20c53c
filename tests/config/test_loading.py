"""Files and flags as plain dictionaries: accepted and refused input."""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.config import load_file, merged, parse_overrides
from mygym.config.loading import parse_value
from mygym.errors import ConfigError
from mygym.training.files import to_yaml

PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.floats(-1e6, 1e6), st.text(st.characters(codec="ascii"))
)
NESTED = st.recursive(
    PLAIN, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text("abc_.1", min_size=1), inner))
)
MAPPINGS = st.dictionaries(st.text("abc_.1", min_size=1), NESTED, max_size=5)


def read(tmp_path: Path, text: str, name: str = "run.yaml") -> dict[str, Any]:
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return load_file(path)


def test_every_notation_of_a_number_is_read_as_a_number(tmp_path: Path) -> None:
    for name in ["run.yaml", "run.yml"]:
        for text in ["3e-4", "3E-4", "+3e-4", "0.3e-3", "3.0e-04", ".3e-3"]:
            assert read(tmp_path, f"x: {text}", name) == {"x": pytest.approx(3e-4)}
            assert parse_overrides([f"x={text}"]) == {"x": pytest.approx(3e-4)}


def test_numbers_of_yaml_1_1_that_are_not_decimal_are_text(tmp_path: Path) -> None:
    for text in ["010", "-010", "0x10", "0b11", "1:40", "1:40.5", "0o17", "00", "0x" + 10_000 * "f"]:
        assert read(tmp_path, f"x: {text}") == parse_overrides([f"x={text}"]) == {"x": text}
        (tmp_path / "written.yaml").write_text(to_yaml({"x": text}))
        assert load_file(tmp_path / "written.yaml") == {"x": text}


def test_decimal_numbers_are_numbers(tmp_path: Path) -> None:
    for text, number in {
        "0": 0,
        "-5": -5,
        "+5": 5,
        "1_000": 1000,
        "1.": 1.0,
        ".5": 0.5,
        "-0.5": -0.5,
        "1.5e3": 1500.0,
        "08.5": 8.5,
    }.items():
        content = read(tmp_path, f"x: {text}")
        assert content == parse_overrides([f"x={text}"]) == {"x": number}
        assert type(content["x"]) is type(number)


def test_yaml_values_have_the_expected_types(tmp_path: Path) -> None:
    text = "steps: 100_000\nher: true\nworkspace: null\ntask: [approach, push]\neval: {every: 500}\nx: '3e-4'\n"
    assert read(tmp_path, text) == {
        "steps": 100_000,
        "her": True,
        "workspace": None,
        "task": ["approach", "push"],
        "eval": {"every": 500},
        "x": "3e-4",
    }


def test_json_may_have_comments_and_trailing_commas(tmp_path: Path) -> None:
    text = '// a run\n{"robot": "kuka", /* fast */ "algo_params": {"gamma": 9.5e-1,},}\n'
    assert read(tmp_path, text, "run.json") == {"robot": "kuka", "algo_params": {"gamma": 0.95}}


def test_json_may_have_hash_comments_but_not_in_text(tmp_path: Path) -> None:
    text = (
        '{\n# the "first, line\n"robot": "a # b // c /* d */, ]", \'x\': "it\\"s # 2", # end, }\n"y": [1, 2, # 3\n],}\n'
    )
    assert read(tmp_path, text, "run.json") == {"robot": "a # b // c /* d */, ]", "x": 'it"s # 2', "y": [1, 2]}


def test_an_empty_yaml_file_is_an_empty_config(tmp_path: Path) -> None:
    assert read(tmp_path, "# all defaults\n") == {}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("run.yaml", "seed: 1\nrobot: panda\nseed: 2\n", ["run.yaml", "duplicate key 'seed'", "line 3"]),
        ("run.yaml", "eval:\n  every: 1\n  every: 2\n", ["run.yaml", "duplicate key 'every'", "line 3"]),
        ("run.json", '{"seed": 1,\n"robot": "a",\n"seed": 2}', ["run.json", "duplicate key 'seed'", "line 1, 3"]),
        ("run.json", '{\n# a comment\n"robot": "a"\n"seed": 2}', ["run.json", "line 4, column 1", "','"]),
        ("run.yaml", "robot: [panda", ["run.yaml", "line 1"]),
        ("run.yaml", "robot: panda\n\ttask: reach", ["run.yaml", "line 2"]),
        ("run.json", '{"robot": ', ["run.json"]),
        ("run.json", '{"robot": "panda",, }', ["run.json", "line 1, column 19"]),
        ("run.json", '{"task": [,]}', ["run.json", "line 1, column 11"]),
        ("run.json", "", ["run.json"]),
        ("run.yaml", "- robot\n- panda", ["run.yaml", "mapping"]),
        ("run.yaml", "just words", ["run.yaml", "mapping"]),
        ("run.json", "[1, 2]", ["run.json", "mapping"]),
        ("run.yaml", "1: one", ["run.yaml", "mapping"]),
        ("run.yaml", "robot: !!python/object/apply:os.getcwd []", ["run.yaml", "line 1"]),
        ("run.yaml", "day: 2024-99-99", ["run.yaml"]),
        ("run.yaml", "algo_params: &a {inner: *a}", ["run.yaml"]),
        ("run.yaml", "algo_params: &a [*a]", ["run.yaml"]),
        ("run.yaml", "? [a, b]\n: 1", ["run.yaml"]),
        ("run.yaml", "[" * 5000, ["run.yaml"]),
        ("run.json", "[" * 5000, ["run.json"]),
        ("run.yaml", "steps: " + "9" * 5000, ["run.yaml"]),
        ("run.yaml", "\udcff", ["run.yaml", "cannot be read"]),
        ("run.yaml", "a: \x00", ["run.yaml"]),
        ("run.toml", "robot = 'panda'", ["run.toml", ".yaml, .yml or .json"]),
        ("run", "robot: panda", ["run", ".yaml, .yml or .json"]),
    ],
)
def test_a_malformed_file_is_refused_with_its_name(tmp_path: Path, name: str, text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, text, name)
    for word in ["config", *words]:
        assert word in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="too large"):
        read(tmp_path, "a: 1\n" * 1_000_000)


def test_a_missing_file_is_refused_with_the_nearest_file(tmp_path: Path) -> None:
    (tmp_path / "reach.yaml").write_text("robot: panda")
    with pytest.raises(ConfigError, match=r"did you mean '.*reach\.yaml'"):
        load_file(tmp_path / "raech.yaml")
    with pytest.raises(ConfigError, match="does not exist"):
        load_file(tmp_path / "no" / "such" / "folder.yaml")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load_file(tmp_path / "run.yaml")


@pytest.mark.parametrize("device", ["pipe", "/dev/zero"])
@pytest.mark.parametrize("name", ["run.yaml", "run.json"])
def test_a_file_that_is_not_regular_is_refused(tmp_path: Path, name: str, device: str) -> None:
    path = tmp_path / name
    os.mkfifo(path) if device == "pipe" else path.symlink_to(device)
    with pytest.raises(ConfigError, match=rf"config: .*{name}' cannot be read: it is not a regular file"):
        load_file(path)


@pytest.mark.parametrize("name", ["run.yaml", "run.json"])
@given(text=st.text(max_size=60))
def test_any_text_is_read_or_refused(tmp_path: Path, name: str, text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(read(tmp_path, text, name), dict)


@given(text=st.text("{}[]:,-?&*!|>'\"%@` \n\tab1.", max_size=40))
def test_any_punctuation_is_read_or_refused(tmp_path: Path, text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(read(tmp_path, text), dict)


@given(values=MAPPINGS)
def test_written_values_are_read_back(tmp_path: Path, values: dict[str, Any]) -> None:
    assert read(tmp_path, to_yaml(values)) == values
    assert read(tmp_path, json.dumps(values), "run.json") == values


@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_survives_a_config(tmp_path: Path, number: float) -> None:
    read_back = read(tmp_path, to_yaml({"x": number}))["x"]
    assert isinstance(read_back, float)
    assert read_back == number
    assert math.copysign(1, read_back) == math.copysign(1, number)


# flags --------------------------------------------------------------------------------------------------------------


def test_overrides_nest_by_dots() -> None:
    pairs = ["eval.every=500", "eval.episodes=3", "algo_params.policy_kwargs.net_arch=[64, 64]", "her=false", "x=a=b"]
    assert parse_overrides(pairs) == {
        "eval": {"every": 500, "episodes": 3},
        "algo_params": {"policy_kwargs": {"net_arch": [64, 64]}},
        "her": False,
        "x": "a=b",
    }
    assert parse_overrides(["seed=1", "seed=2"]) == {"seed": 2}


@pytest.mark.parametrize("pairs", [["eval.every=500", "eval={episodes: 5}"], ["eval={episodes: 5}", "eval.every=500"]])
def test_an_override_that_is_a_mapping_keeps_the_keys_of_the_others(pairs: list[str]) -> None:
    assert parse_overrides(pairs) == {"eval": {"every": 500, "episodes": 5}}


@pytest.mark.parametrize("pair", ["", "seed", "=1", "a..b=1", ".a=1", "a.=1", "a=[1", "a={b: 1, b: 2}", "a=\x00"])
def test_an_invalid_override_is_refused(pair: str) -> None:
    with pytest.raises(ConfigError):
        parse_overrides([pair])


@pytest.mark.parametrize("pairs", [["eval=1", "eval.every=2"], ["a.b=1", "a.b.c=2"], ["a.b.c=2", "a.b=1"]])
def test_a_value_and_keys_below_it_are_refused(pairs: list[str]) -> None:
    with pytest.raises(ConfigError, match="sets both"):
        parse_overrides(pairs)


@given(pairs=st.lists(st.text(max_size=12) | st.text("ab.=:[]{}&*1 ", max_size=12), max_size=4))
def test_any_overrides_are_read_or_refused(pairs: list[str]) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(parse_overrides(pairs), dict)


@given(low=MAPPINGS, high=MAPPINGS)
def test_merging_keeps_keys_that_are_not_repeated(low: dict[str, Any], high: dict[str, Any]) -> None:
    before = json.dumps([low, high])
    both = merged(low, high)
    assert both.keys() == low.keys() | high.keys()
    for key, value in both.items():
        if key not in high:
            assert value == low[key]
        elif isinstance(high[key], dict) and isinstance(low.get(key), dict):
            assert value == merged(low[key], high[key])
        else:
            assert value == high[key]
    assert json.dumps([low, high]) == before


def test_a_short_file_of_aliases_is_refused_before_it_is_walked(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]" for i in range(1, 12)]
    file = tmp_path / "bomb.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match="more than"):
        load_file(file)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("1e5", 100_000), ("2E3", 2000), ("-1e1", -10), ("123456789012345678e1", 1234567890123456780)),
        *(("1e-3", 0.001), ("1.5e3", 1500.0), ("1e+5", 100_000.0), ("1e30", 1e30)),
    ],
)
def test_an_exponent_may_belong_to_a_whole_number(text: str, value: float) -> None:
    found = parse_value(text, "steps")
    assert (found, type(found)) == (value, type(value))
