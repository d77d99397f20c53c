"""Every hint, followed to the letter, works: each case is a wrong input, and the hint is taken out of the message."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import mygym
from mygym.cli.main import COMMANDS
from mygym.errors import MygymError
from mygym.registry.registries import isolated
from tests.command import SHORT_RUN, Command, Outcome

NEAREST = r"did you mean (?:the key )?'([^']+)'"
ALGO = "from stable_baselines3 import PPO\nfrom mygym.registry import register_algorithm, implemented_combos\n"
STRATEGY = "from mygym.strategies.strategy import Strategy, register_strategy\n"
SAMPLER = "from mygym.strategies.mixture.samplers import Sampler, register_sampler\n"
MIXTURE = "train --explain --algo a2c --strategy mixture --set strategy_params.sampler="


class Case(NamedTuple):
    """A wrong input: a command line, and the user's files by path."""

    words: list[str]
    files: dict[str, str]


# Follow a message -----------------------------------------------------------------------------------------------------


def follow(case: Case, message: str, run: Callable[[list[str]], Outcome]) -> Case:
    """Return the input that the hint of a message asks for.

    Raises:
        AssertionError: The message has no hint.
    """
    for pattern, apply in FORMS.items():
        if match := re.search(pattern, message):
            return apply(case, message, match, run)
    raise AssertionError(f"no hint: {message}")


def subject(message: str) -> tuple[str, str]:
    """Return key and value of the mistake, the value as it was typed."""
    if match := re.search(r"([\w.-]+): .*; '(\w+)' is not a key of", message):
        return match[1], match[2]
    match = re.search(r"([\w.-]+): (?:'([^']*)'|([\d.]+)) ", message)
    assert match, message
    return match[1], match[2] or match[3]


def replaced(case: Case, wrong: str, right: str) -> Case:
    """Replace a word everywhere in the input."""
    pattern = rf"(?<![\w-]){re.escape(wrong)}(?![\w-])"
    swap = lambda text: re.sub(pattern, lambda _: right, text)  # noqa: E731
    changed = Case([swap(word) for word in case.words], {path: swap(text) for path, text in case.files.items()})
    assert changed != case, f"{wrong} is not in the input"
    return changed


def renamed(case: Case, wrong: str, right: str) -> Case:
    """Move the value of a dotted config key to another key, in flags and in config files."""
    words = [re.sub(rf"^{re.escape(wrong)}(?=[.=])", right, word) for word in case.words]
    files = dict(case.files)
    for path, text in case.files.items():
        if path.endswith(".yaml"):
            config = yaml.safe_load(text)
            *parents, last = wrong.split(".")
            inner = config
            for name in parents:
                inner = inner.get(name, {})
            if last in inner:
                value, target = inner.pop(last), config
                for name in right.split(".")[:-1]:
                    target = target.setdefault(name, {})
                target[right.split(".")[-1]] = value
                files[path] = yaml.safe_dump(config)
    return Case(words, files)


def use_name(case: Case, message: str, match: re.Match[str], run: Any) -> Case:
    """`did you mean 'X'?`: the word is replaced by X; a key of another section takes the place of the whole key."""
    key, wrong = subject(message)
    right = match[1]
    of_key = key.endswith(f".{wrong}") or key == wrong or key.rpartition(".")[2] == right.rpartition(".")[2]
    if of_key:
        whole = "." in right or "the key" in match[0] or "." not in key
        moved = renamed(case, key, right if whole else f"{key.rpartition('.')[0]}.{right}")
        if moved != case:
            return moved
    return replaced(case, wrong, right)


def use_key(case: Case, message: str, match: re.Match[str], run: Any) -> Case:
    """`use KEY, with strategy S`, or `use algo A` in place of the key."""
    key = subject(message)[0]
    for flag, name in re.findall(r"(strategy|algo) (?!for)(\w+)", match[0]):
        case = Case([*case.words, f"--{flag}", name], case.files)
    named = re.search(r"(?:use|with) (?!strategy |algo \w+[,;])([a-z_]+(?:\.\w+)*)", match[0])
    if named:
        return renamed(case, key, named[1])
    index = next(index for index, word in enumerate(case.words) if word.startswith(f"{key}="))
    return Case(case.words[: index - 1] + case.words[index + 1 :], case.files)


def use_keys(case: Case, message: str, match: re.Match[str], run: Any) -> Case:
    """`KEY (use X), KEY (did you mean 'X'?)`."""
    for wrong, right in re.findall(r"([\w.]+) \((?:use|did you mean) '?([\w.]+)", message):
        case = renamed(case, wrong, right)
    return case


def use_form(case: Case, message: str, match: re.Match[str], run: Any) -> Case:
    """A value in the form of configs takes the place of the value."""
    key, wrong = subject(message)
    return Case([word.replace(f"{key}={wrong}", f"{key}={match[1]}") for word in case.words], case.files)


def use_other_key(case: Case, message: str, match: re.Match[str], run: Any) -> Case:
    """`null, with the key KEY: VALUE`."""
    changed = replaced(case, subject(message)[1], "null")
    return Case([*changed.words, "--set", match[1].replace(": ", "=")], case.files)


def use_import(case: Case, message: str, match: re.Match[str], run: Any) -> Case:
    return Case([*case.words, "--import", match[1]], case.files)


def use_file(case: Case, message: str, match: re.Match[str], run: Any) -> Case:
    path = next(path for path in case.files if path in message)
    return Case([*case.words, "--import", path], case.files)


def use_command(case: Case, message: str, match: re.Match[str], run: Any) -> Case:
    """A command that writes a new file: it is run, and the new file takes the place of the old."""
    command, env = match[1].split(), match[2]
    outcome = run([env if word == "ENV" else word for word in command[1:]])
    assert outcome.code == 0, outcome.err
    return replaced(case, command[2], command[-1])


def in_files(change: Callable[[str, re.Match[str]], str]) -> Callable[..., Case]:
    """Return the application of a hint that changes the user's file."""

    def apply(case: Case, message: str, match: re.Match[str], run: Any) -> Case:
        return Case(case.words, {path: change(text, match) for path, text in case.files.items()})

    return apply


def pass_kwargs(text: str, match: re.Match[str]) -> str:
    text = re.sub(r"(def __init__\(self, [^)*]*)\)", r"\1, **kwargs)", text)
    return re.sub(r"super\(\).__init__\([^)]*\)", lambda _: match[1], text)


def rename_method(text: str, match: re.Match[str]) -> str:
    return re.sub(rf"def {match[1]}\([^)]*\)", lambda _: f"def {match[2]}", text)


def drop_method(text: str, match: re.Match[str]) -> str:
    text = re.sub(rf"    def {match[1]}\(.*\n(?:        .*\n)+", "", text)
    line = match[2].replace("NAME", "'mine'")
    return text if line in text else text.replace("class ", f"{line}\nclass ")


FORMS: dict[str, Callable[..., Case]] = {
    r"(mygym import \S+ --env ENV -o \S+), with ENV ([\w-]+)": use_command,
    r"(?:add|also the flag) --import (\S+)": use_import,
    r"import the file with --import": use_file,
    r"add `\*\*kwargs` and pass them on: `([^`]+)`": in_files(pass_kwargs),
    r"write for example `((\w+): [^`]+)`": in_files(
        lambda text, match: re.sub(rf"\b{match[2]}\b", match[1], text, count=1)
    ),
    r'write "env" with quotes': in_files(lambda text, match: re.sub(r'(?<!")\benv\b(?!")', '"env"', text)),
    r"register_\w+: '(\w+)' is a method .* allowed: (\w+\([^)]*\))": in_files(rename_method),
    r"register_\w+: '(\w+)\([^']*\)' takes other .* allowed: (\w+\([^)]*\))": in_files(rename_method),
    r"register_\w+: '(\w+)' is a method .* allowed: (@\w+\(\w+\))": in_files(drop_method),
    r"null, .* with the key (\w+: \w+)": use_other_key,
    r"or (\{schedule: [^}]*\})": use_form,
    r"written as (\{[^}]*\})": use_form,
    r"\d+ keys are not config keys": use_keys,
    NEAREST: use_name,
    r"letters are capitals: '(\w+)'": use_name,
    r"; (use [^;`]+)$": use_key,
}
"""Form of a hint → the change of the input that it asks for; the first form that fits counts."""


# Cases ----------------------------------------------------------------------------------------------------------------

EXPLAINED = """
--set robbot=panda | --set task_type=reach | --set robot_action=ee_delta | --set train_framework=pytorch |
--set max_episode_steps=100 | --set eval_freq=5000 | --set num_networks=3 --task AGM | --set max_velocity=1 |
--set reward_type=sparse | --set env_name=push | --set render=2 | --set env=push | --set total_timesteps=100 |
--set learning_rate=1e-3 | --set horizon=50 | --set lr=1e-3 | --set output_dir=x | --set num_train_epochs=2000 |
--set weight_decay=0.01 | --set optim=adamw | --set eval_steps=3000 | --set lora_r=4 | --set lora_alpha=4 |
--set robbot=panda --set eval_freq=4000 --set eval.evry=3 | --set eval.steps=300 | --set engine=fusd |
--set algo_params.lr=1e-3 | --set algo_params.net_arch=[32] | --set algo_params.n_envs=4 |
--set algo_params.horizon=100 | --set algo_params.policy_kwargs.lr=1e-3 | --set algo_params.learning_rate=lin_3e-4 |
--algo ppo --set algo_params.clip_range=lin_0.2 | --set algo_params.learning_rate={schedule:^linaer,from:^0.1,to:^0} |
--set algo_params.learning_rate={shedule:^linear,from:^0.1,to:^0} |
--set algo_params.learning_rate={schedule:^linear,form:^0.1,to:^0} |
--set algo_params.policy_kwargs=dict(net_arch=[64,^64]) | --set algo_params.policy=MlpPolicy |
--set algo_params.policy_kwargs.activation_fn=ReLU | --set algo_params.policy_kwargs.activation_fn=nn.ReLU |
--set algo_params.policy_kwargs.optimizer_class=torch.optim.AdamW |
--set algo_params.policy_kwargs.features_extractor_class=CombinedExtractor |
--set algo_params.replay_buffer_class=HerReplayBuffer | --set training_params.gamma=0.9 |
--strategy demos --set strategy_params.learning_rate=1e-3 | --strategy demos --set strategy_params.shar=0.3 |
--strategy curriculum --set strategy_params.levels=backwards | --strategy CurriculumStrategy | --algo RecurrentPPO |
--framework torch | --task PickAndPlaceTask | --task agm | --task put^the^aple^on^the^plate | --reward DenseReward |
--control JointDeltaController | --control {name:^ee_delta,max_velocty:^1} |
--set callbacks=[LayerStatisticsCallback] | --set callbacks=[{nam:^layer_statistics}] |
--set observations=[goal_from_e] | --set randomize.object_mas=true --task push | --set video.camera=mian |
--set task_params.object=cuube --task push | --task AGM --set task_params.starts.in_hnd=0.1 | --algoo ppo |
--log-dir x
"""
"""Words after `train --explain`, `^` for a space; `|` separates the cases."""

OTHER = ["trian --explain", "list robots", "list algos", "describe algos sac", "new algoo custom", "list --jsn"]

EXPLAIN = "train --explain --config c.yaml"
OF_ALGO = "train --explain --algo mine"
OF_STRATEGY = "train --explain --strategy mine"
FILES: dict[str, tuple[str, str, str]] = {
    "config file": (EXPLAIN, "c.yaml", "{robbot: panda, eval: {evry: 9, steps: 100}, lr: 0.1}"),
    "key of another section": (EXPLAIN, "c.yaml", "algo_params: {net_arch: [32], lr: 0.1}"),
    "zoo": ("train --explain --config ppo.yml", "ppo.yml", "PandaReach-v1: {n_timesteps: 100}"),
    "toolkit task": ("import t.json", "t.json", '{"task_type": "reech", "robot": "panda"}'),
    "toolkit action": ("import t.json", "t.json", '{"task_type": "reach", "robot_action": "stepp"}'),
    "imports": (EXPLAIN, "c.yaml", "{imports: [tabnanny], algo: PPO}"),
    "class name": (f"{MIXTURE}BarSampler", "algos/u.py", SAMPLER + "@register_sampler('foo')\n"
        "class BarSampler(Sampler):\n"
        "    def propose(self, count):\n        return [[0] * self.layers] * count\n"),
    "step": (f"{MIXTURE}bar", "algos/u.py", SAMPLER + "@register_sampler('bar')\nclass Bar(Sampler):\n"
        "    def step(self):\n        pass\n"),
    "prepare_dataset": (OF_STRATEGY, "algos/u.py", STRATEGY + "@register_strategy('mine')\n"
        "class Mine(Strategy):\n    def prepare_dataset(self):\n        pass\n"),
    "get_strategy_name": (OF_STRATEGY, "algos/u.py", STRATEGY + "@register_strategy('mine')\n"
        "class Mine(Strategy):\n    def get_strategy_name(self):\n        return 'mine'\n"
        "    def finish(self):\n        pass\n"),
    "kwargs": (OF_ALGO, "algos/u.py", ALGO + "@register_algorithm('mine')\nclass Mine(PPO):\n"
        "    def __init__(self, policy, env):\n        super().__init__(policy, env)\n"),
    "no type": (OF_ALGO, "algos/u.py", ALGO + "@register_algorithm('mine')\nclass Mine(PPO):\n"
        "    def __init__(self, policy, env, beta, **kwargs):\n        super().__init__(policy, env, **kwargs)\n"),
    "env": (OF_ALGO, "algos/u.py", ALGO + "implemented_combos['mine'] = "
        "{'pytorch': [PPO, ('MultiInputPolicy', env), {}]}\n"),
    "framework": (OF_ALGO, "algos/u.py", ALGO + "@register_algorithm('mine', framework='pytorhc')\n"
        "class Mine(PPO):\n    pass\n"),
}  # fmt: skip
"""Command line, path and content of a file of the user."""

CASES = {
    **{line.strip(): (f"train --explain {line}", {}) for line in EXPLAINED.split("|")},
    **{line: (line, {}) for line in OTHER},
    **{name: (line, {path: text}) for name, (line, path, text) in FILES.items()},
}


@pytest.mark.parametrize("name", CASES)
def test_a_hint_followed_to_the_letter_works(name: str, mygym_command: Command, tmp_path: Path) -> None:
    line, files = CASES[name]
    case = Case([word.replace("^", " ") for word in line.split()], dict(files))

    def run(words: list[str]) -> Outcome:
        with isolated():
            return mygym_command(*words)

    seen: list[str] = []
    while True:
        for path, text in case.files.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text)
        outcome = run(case.words)
        message = outcome.err.strip()
        if outcome.code == 0:
            break
        assert message not in seen, message
        assert len(seen) < 4, message
        seen.append(message)
        case = follow(case, message, run)
    assert seen, "the input is not wrong"


@pytest.fixture
def dashboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of the dashboard's API."""
    pytest.importorskip("nicegui", reason="the extra dashboard is not installed")
    from fastapi import FastAPI
    from starlette.testclient import TestClient

    from mygym.dashboard import helper
    from mygym.dashboard.api import add_api
    from mygym.dashboard.service import Service

    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(helper, "ProcessPoolExecutor", lambda count, *_, **__: ThreadPoolExecutor(count))
    service = Service(tmp_path / "runs", slots=1)
    app = FastAPI(docs_url=None, redoc_url=None)
    add_api(app, service)
    yield TestClient(app)
    service.close()


@pytest.mark.parametrize(
    "path", ["/api/rnus", "/api/registri/robot", "/api/registry/robot/pnda", "/api/checc", "/api/schemas"]
)
def test_the_nearest_path_of_the_dashboard_answers(path: str, dashboard: Any) -> None:
    answer = dashboard.get(path)
    assert answer.status_code == 404
    match = re.search(NEAREST, answer.json()["errors"][0]["message"])
    assert match
    assert dashboard.get(match[1]).status_code in (200, 405)  # 405: the operation exists, for another method


def test_hints_for_a_body_of_the_dashboard_work(dashboard: Any) -> None:
    text = json.dumps({"task": "raech", "algo": "PPO", "algo_params": {"gama": 0.9}, "learning_rate": 0.1})
    for _ in range(5):
        if not (errors := dashboard.post("/api/check", json=yaml.safe_load(text)).json().get("errors")):
            break
        text = follow(Case([], {"body.yaml": text}), errors[0]["message"], None).files["body.yaml"]
    body = {"task": "reach", "algo": "ppo", "algo_params": {"gamma": 0.9, "learning_rate": 0.1}}
    assert yaml.safe_load(text) == body


def test_a_hint_of_the_python_interface_works() -> None:
    given: dict[str, Any] = {"config": {"steps": 10, "algoo": "sac"}, "callback": print}
    with pytest.raises(MygymError) as wrong:
        mygym.train(**given)
    changed = re.search(NEAREST, str(wrong.value))
    assert changed
    given[changed[1]] = given.pop("callback")
    with pytest.raises(MygymError, match="algoo"):
        mygym.train(**given)


def test_the_flag_for_a_run_of_another_folder_works(
    mygym_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "algos").mkdir(parents=True)
    (tmp_path / "a" / "algos" / "u.py").write_text(ALGO + "@register_algorithm('mine')\nclass Mine(PPO):\n    pass\n")
    monkeypatch.chdir(tmp_path / "a")
    small = ["--set", "algo_params.n_steps=16", "--set", "algo_params.batch_size=16", "--set", "video.episodes=0"]
    with isolated():
        trained = mygym_command("train", "--algo", "mine", *SHORT_RUN, *small)
    run = Path(trained.out.splitlines()[-1].removeprefix("run: ")).absolute()
    monkeypatch.chdir(tmp_path)
    case = Case(["evaluate", str(run), "--episodes", "1"], {})
    with isolated():
        outcome = mygym_command(*case.words)
    assert outcome.code == 2
    with isolated():
        assert mygym_command(*follow(case, outcome.err.strip(), None).words).code == 0


def test_the_command_for_demonstrations_of_another_format_works(mygym_command: Command, tmp_path: Path) -> None:
    pytest.importorskip("minari", reason="the extra demos is not installed")
    (tmp_path / "d" / "meta").mkdir(parents=True)
    (tmp_path / "d" / "meta" / "info.json").write_text("{}")
    refused = mygym_command("replay", "d")
    match = re.search(r"that (mygym demos) has written with (--format minari)", refused.err)
    assert match, refused.err
    command = [*match[1].split()[1:], "reach", "--out", "new", "--episodes", "1", *match[2].split()]
    assert mygym_command(*command).code == 0
    assert mygym_command("replay", "new", "--episode", "0").code == 0


def test_every_hint_of_a_command_names_a_command() -> None:
    """`mygym list KIND` and the like, which messages name, exist."""
    source = "".join(path.read_text(encoding="utf-8") for path in Path(mygym.__file__).parent.rglob("*.py"))
    assert set(re.findall(r"`mygym ([a-z]+)", source)) <= {*COMMANDS}
