"""Diagnoses of runs that were spoilt on purpose, each in a single way, and silence on good runs."""

from __future__ import annotations

import json
import math
import shlex
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mygym
from benchmarks.learned import learned
from mygym.cli.main import main
from mygym.config.loading import parse_overrides
from mygym.errors import ConfigError
from mygym.nested import merged
from mygym.planning.resolve import resolve_config
from mygym.reporting.doctor import LEARNED, RULES, SEVERAL_STAGES, diagnose, steps_to_learn
from mygym.reporting.run_logs import SUCCESS, RunLogs, read_logs
from tests.components import slow_except

LOGS = Path(__file__).parent / "logs"
"""Logs of two good runs: `python train.py` by a version that did not log touches, and `ppo` on `poke`, whose
monitor.csv has every tenth episode here."""

EARLY = {"too_few_steps", "too_few_evaluations"}
"""Findings of good runs before they have learned: success grows, and a run that succeeds soon has few evaluations."""

Change = Callable[[RunLogs], RunLogs]


@pytest.fixture(scope="module")
def good() -> dict[str, RunLogs]:
    return {name: read_logs(LOGS / name) for name in ("reach", "poke")}


def config(**values: Any) -> Change:
    return lambda logs: replace(logs, config=merged(logs.config, values))


def params(**values: Any) -> Change:
    return config(algo_params=values)


def record(**values: Any) -> Change:
    return lambda logs: replace(logs, record=replace(logs.record, **values))


def column(**values: Any) -> Change:
    """Give every training episode the same value of a column."""
    return lambda logs: replace(
        logs, episodes={name: np.full_like(old, values.get(name, old)) for name, old in logs.episodes.items()}
    )


def line(**values: Any) -> Change:
    """Change the value of `train/KEY` wherever it is logged: a value, or a function of the old value and its number."""

    def change(logs: RunLogs) -> RunLogs:
        lines = [dict(each) for each in logs.lines]
        for name, value in values.items():
            for number, each in enumerate(each for each in lines if f"train/{name}" in each):
                each[f"train/{name}"] = value(each[f"train/{name}"], number) if callable(value) else value
        return replace(logs, lines=tuple(lines))

    return change


def evaluations(rates: Iterable[float]) -> Change:
    """Replace the evaluations."""

    def change(logs: RunLogs) -> RunLogs:
        trained = [each for each in logs.lines if SUCCESS not in each]
        evaluated = [{"steps": 500 * number, SUCCESS: rate} for number, rate in enumerate(rates)]
        return replace(logs, lines=(*trained, *evaluated))

    return change


FAILED = record(success_rate=0.0)
CASES: list[tuple[str, str, list[Change], str, str]] = [
    ("ended_with_an_error", "reach", [record(status="failed", error="OSError: disk full")], "disk full", "--resume"),
    (
        "diverged",
        "reach",
        [record(status="diverged", error="a weight is not finite")],
        "a weight",
        "learning_rate=0.0003",
    ),
    ("diverged", "poke", [line(loss=None)], "train/loss is not finite", "learning_rate=0.0001"),
    ("stopped_early", "reach", [record(status="stopped", steps=700)], "stopped after 700 of 20,000", "--resume"),
    (
        "no_update_before_the_end",
        "reach",
        [params(learning_starts=90_000)],
        "90,000, and the run has 20,000",
        "--steps",
    ),
    ("learning_rate_out_of_range", "reach", [params(learning_rate=0.5)], "0.5: steps are too large", "learning_rate"),
    (
        "learning_rate_out_of_range",
        "poke",
        [params(learning_rate={"schedule": "linear", "from": 0, "to": 0}), line(learning_rate=0.0)],
        "0: no weight changes",
        "learning_rate",
    ),
    ("too_few_steps", "reach", [record(steps=500)], "500 steps; reach was learned by sac in 3,000", "--steps 3000"),
    ("too_few_steps", "poke", [FAILED, evaluations([0, 0, 0.1, 0.3, 0.5])], "0% in the first half", "--steps"),
    ("too_few_updates", "poke", [params(n_steps=2048)], "1.5 rollouts of 65,536 steps", "n_steps=512"),
    ("too_few_updates", "reach", [line(n_updates=9)], "9 updates in", "gradient_steps"),
    ("too_few_evaluations", "reach", [evaluations([0, 0])], "1 evaluation after the start", "eval.every=2000"),
    ("too_few_evaluations", "reach", [config(eval={"episodes": 2})], "2 episodes", "eval.episodes=50"),
    (
        "reward_cannot_teach",
        "poke",
        [config(reward="sparse"), column(is_success=0)],
        "reward sparse shows success only, the task has 3 stages",
        "--reward shaped",
    ),
    ("task_harder_than_its_default", "reach", [config(task_params={"horizon": 5})], "horizon is 5", "horizon=25"),
    ("task_harder_than_its_default", "reach", [config(task_params={"hold": 30})], "hold is 30", "hold=3"),
    ("discount_too_short", "reach", [params(gamma=0.5)], "2.0 steps ahead, an episode has 25", "gamma=0.95"),
    ("replay_buffer_too_small", "reach", [params(buffer_size=100)], "holds 4 episodes", "buffer_size=20000"),
    ("no_exploration", "reach", [config(algo="td3"), params(action_noise=None)], "without noise", "action_noise=0.2"),
    ("reward_never_changes", "poke", [column(r=-20.0, l=20)], "of a step is -1 in all", "check the reward function"),
    ("never_touched_the_object", "poke", [column(touched=0)], "touched an object or part", "--strategy curriculum"),
    ("hindsight_finds_nothing", "poke", [config(her=True), column(touched=0)], "touched in 0 of", "curriculum"),
    (
        "stuck_in_a_stage",
        "poke",
        [column(stages_done=1)],
        "0 of 641 training episodes completed stage poke (2 of 3; 100%",
        "task_params.starts.along_expert=0.3",
    ),
    ("episodes_are_cut_off", "poke", [column(is_success=0, l=9)], "end after 9 of", "control.step"),
    ("actions_saturate", "poke", [column(saturation=0.98)], "98% of the action components", "learning_rate=0.0003"),
    ("q_values_explode", "reach", [line(actor_loss=-7e4)], "actor_loss 7e+04", "learning_rate"),
    ("value_loss_explodes", "poke", [line(value_loss=1e7)], "value_loss 1e+07", "learning_rate=0.0003"),
    ("updates_too_large", "poke", [line(approx_kl=0.4, clip_fraction=0.7)], "clips 70%", "learning_rate=0.0003"),
    ("updates_change_nothing", "poke", [line(approx_kl=0.0, clip_fraction=0.0)], "clips 0%", "learning_rate"),
    ("entropy_collapsed", "poke", [line(std=lambda std, number: std * 0.8**number)], "0.5 at first", "ent_coef=0.01"),
    ("entropy_collapsed", "reach", [line(ent_coef=1e-7)], "entropy coefficient 1e-07", "ent_coef=auto_0.1"),
    ("noise_drowns_the_policy", "poke", [line(std=8.0)], "8, actions lie in [-1, 1]", "ent_coef=0"),
    ("noise_drowns_the_policy", "reach", [line(ent_coef=50.0)], "entropy coefficient 50", "ent_coef=auto_0.05"),
    ("succeeds_in_training_alone", "poke", [FAILED], "training episodes, 0% in evaluations", "normalize=false"),
    ("success_was_lost", "poke", [FAILED], "success was 100% after", "best_policy.safetensors"),
]
"""Finding, good run, changes that spoil it, part of the evidence, part of the remedy."""


@pytest.mark.parametrize(
    ("name", "run", "changes", "evidence", "remedy"), CASES, ids=[f"{case[0]}-{case[3]}" for case in CASES]
)
def test_a_spoilt_run(
    name: str, run: str, changes: list[Change], evidence: str, remedy: str, good: dict[str, RunLogs]
) -> None:
    rule = next(rule for rule in RULES if rule.__name__ == name)
    logs = good[run]
    assert rule(logs) is None or name in EARLY, "without the changes"
    for change in changes:
        logs = change(logs)
    finding = rule(logs)
    assert finding is not None
    assert evidence in finding.evidence
    assert remedy in finding.remedy
    assert name in diagnose(FAILED(logs))
    words = shlex.split(finding.remedy)
    for flag, value in pairwise(words):
        if flag in ("--set", "--reward", "--strategy", "--steps"):
            pair = value if flag == "--set" else f"{flag[2:]}={value}"
            resolve_config(good[run].config, parse_overrides([pair.rstrip(",")]))


def test_every_rule_has_a_case() -> None:
    assert {case[0] for case in CASES} == {rule.__name__ for rule in RULES}


def test_repeated_actions_do_not_shorten_episodes(good: dict[str, RunLogs]) -> None:
    """`l` counts actions, the horizon control steps."""
    logs = FAILED(column(is_success=0, l=9)(good["poke"]))
    repeated = config(control={"action_repeat": math.ceil(logs.limit / 9)})(logs)
    assert "episodes_are_cut_off" in diagnose(logs)
    assert "episodes_are_cut_off" not in diagnose(repeated)


@pytest.mark.parametrize("run", ["reach", "poke"])
def test_good_runs_have_no_findings(run: str, good: dict[str, RunLogs]) -> None:
    assert diagnose(good[run]) == {}
    silent = {rule.__name__ for rule in RULES if rule(good[run]) is None}
    assert {rule.__name__ for rule in RULES} - silent <= EARLY


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5, 0.7])
@pytest.mark.parametrize("run", ["reach", "poke"])
def test_a_good_run_has_no_findings_while_it_trains(run: str, share: float, good: dict[str, RunLogs]) -> None:
    logs = good[run]
    steps, episodes = int(share * logs.steps), int(share * len(logs.column("r")))
    logs = replace(
        record(status="running", steps=steps, success_rate=None, episodes=0)(logs),
        lines=tuple(each for each in logs.lines if each["steps"] <= steps),
        episodes={name: values[:episodes] for name, values in logs.episodes.items()},
    )
    assert set(diagnose(logs)) <= {"too_few_steps"}


def test_the_first_episodes_of_a_run_that_trains_prove_nothing(good: dict[str, RunLogs]) -> None:
    logs = evaluations([0])(column(touched=0, stages_done=0, is_success=0, r=-1.0, l=1)(good["poke"]))
    findings = {"never_touched_the_object", "stuck_in_a_stage", "reward_never_changes"}
    for steps, expected in ((20_000, set()), (150_000, findings)):
        diagnosis = diagnose(record(status="running", steps=steps, success_rate=None, episodes=0)(logs))
        assert findings & set(diagnosis) == expected


SPOILT: dict[str, tuple[dict[str, Any], set[str]]] = {
    "a tiny learning rate": (
        {"algo": "ppo", "steps": 128, "algo_params": {"learning_rate": 1e-9}},
        {"learning_rate_out_of_range", "updates_change_nothing", "too_few_updates"},
    ),
    "a huge learning rate": (
        {"algo": "ppo", "steps": 128, "algo_params": {"learning_rate": 0.5}},
        {"learning_rate_out_of_range", "updates_too_large"},
    ),
    "no reward before the first success": (
        {
            "algo": "ppo",
            "task": "push",
            "reward": "sparse",
            "steps": 256,
            "task_params": {"starts": {"along_expert": 0}},
        },
        {"reward_cannot_teach", "reward_never_changes", "never_touched_the_object", "stuck_in_a_stage"},
    ),
    "hindsight without touch": (
        {"algo": "td3", "task": "pick_and_place", "steps": 256, "algo_params": {"action_noise": None}},
        {"hindsight_finds_nothing", "no_exploration", "task_harder_than_its_default"},
    ),
    "no training": (
        {"steps": 40, "algo_params": {"learning_starts": 500}, "eval": {"every": 100}},
        {"no_update_before_the_end", "too_few_evaluations", "too_few_steps"},
    ),
}
"""Name → config of a short run, and some of its findings."""


@pytest.mark.parametrize("name", slow_except(SPOILT, list(SPOILT)[::2].__contains__))
def test_a_short_run_that_is_spoilt(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    config, expected = SPOILT[name]
    rollouts = {"n_steps": 16, "batch_size": 16, "n_epochs": 2}
    small = {"algo_params": rollouts if config.get("algo") == "ppo" else {}, "task_params": {"horizon": 8}}
    quiet = {"eval": {"episodes": 2, "final_episodes": 2, "every": 64}, "video": {"episodes": 0}, "tensorboard": False}
    run = mygym.train(merged(merged(small, quiet), config)).path
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(["doctor", str(run), "--json"])
    assert end.value.code == 1
    assert expected <= {finding["finding"] for finding in json.loads(capsys.readouterr().out)}


def test_the_command_prints_a_line_for_each_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["doctor", str(LOGS / "reach")])
    assert not end.value.code
    assert capsys.readouterr().out.endswith("success 100%\nit has learned\n")
    run = tmp_path / "run"
    shutil.copytree(LOGS / "reach", run)
    for name in ("result.json", "progress.jsonl", "monitor.csv"):
        (run / name).write_text("r,l\n{\n1,2,3\n\x00")
    with pytest.raises(SystemExit) as end:
        main(["doctor", str(run)])
    assert end.value.code == 1
    heading, *lines = capsys.readouterr().out.splitlines()
    assert "damaged, 0 of 20,000 steps, success 0%" in heading
    assert [each.partition(":")[0] for each in lines] == ["- ended with an error"]


def test_a_path_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a run directory"):
        read_logs(tmp_path)


def test_the_learning_table_is_that_of_the_stored_results() -> None:
    assert learned() == LEARNED, "python benchmarks/learned.py > mygym/reporting/learned.json"
    assert (LEARNED["reach"]["sac"], LEARNED["push"]["ppo"]) == (3_000, 200_704)


def test_unmeasured_tasks_are_compared_with_similar_runs() -> None:
    assert steps_to_learn("reach", "sac", False) == (3_000, "reach was learned by sac")
    assert steps_to_learn("push", "sac", True) == (LEARNED["push"]["xqc"], "push was learned by xqc")
    assert steps_to_learn("AGM", "sac", True) == (SEVERAL_STAGES, "the quickest task of several stages was learned")
    assert steps_to_learn("maze", "bc", True) is None
    assert steps_to_learn("point", "sac", False) is None
