"""The API: a thin layer whose mistakes have the words of the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mygym.api import train
from mygym.dashboard.service import Service, command_line, stored_token
from mygym.planning import plan
from tests.reporting.runs import make_run


def test_runs_with_filters(client: Any, service: Service) -> None:
    make_run(service.logdir, algo="sac")
    make_run(service.logdir, success=0.5, algo="ppo")
    rows = client.get("/api/runs").json()
    assert {row["algo"] for row in rows} == {"sac", "ppo"}
    assert all(not Path(row["path"]).is_absolute() for row in rows)
    (row,) = client.get("/api/runs?algo=ppo").json()
    assert row["success_rate"] == 0.5
    assert row["curve"][-1] == 0.5
    answer = client.get("/api/runs?algos=ppo")
    assert answer.status_code == 422
    assert "did you mean 'algo'?" in answer.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("success_rate=1", 1), ("success=0.5", 1), ("seed=0", 2), ("algo_params.gamma=0.95", 2),
        ("algo_params.gamma=0.9", 0), ("reward=sparse&algo=ppo", 1), ("path=x", 0),
    ],
)  # fmt: skip
def test_filters_are_those_of_the_command_line(query: str, count: int, client: Any, service: Service) -> None:
    make_run(service.logdir, algo="sac")
    make_run(service.logdir, success=0.5, algo="ppo")
    assert len(client.get(f"/api/runs?{query}").json()) == count


def test_a_run(client: Any, service: Service) -> None:
    run = make_run(service.logdir)
    (run / "videos").mkdir()
    (run / "videos" / "final.mp4").write_bytes(b"video")
    (run / "videos" / "link.mp4").symlink_to("/etc/passwd")
    (run / "model.zip").write_bytes(b"weights")
    identifier = client.get("/api/runs").json()[0]["id"]
    content = client.get(f"/api/runs/{identifier}").json()
    assert content["config"]["algo"] == "sac"
    assert content["stages"]
    assert len(client.get(f"/api/runs/{identifier}/progress").json()) == 11
    assert len(client.get(f"/api/runs/{identifier}/progress?after=8000").json()) == 2
    assert client.get(f"/api/runs/{identifier}/videos").json() == ["videos/final.mp4"]
    assert client.get(f"/api/runs/{identifier}/files/videos/final.mp4").content == b"video"
    assert client.get(f"/api/runs/{identifier}/files/model.zip").status_code == 404
    assert client.get(f"/api/runs/{identifier}/files/videos/link.mp4").status_code == 404
    assert client.get(f"/api/runs/{identifier}/doctor").json() == []
    events = client.get(f"/api/runs/{identifier}/events").text
    assert events.count('data: {"steps":') == 11
    assert events.endswith("event: end\ndata: {}\n\n")
    assert client.get("/api/runs/000000000000").status_code == 404
    for number in ("7", "9" * 40, "²"):
        assert client.post(f"/api/runs/job-{number}/stop").status_code == 404
    assert client.post(f"/api/runs/{identifier}/stop").status_code == 409


def test_the_log_of_a_run_that_resumed_from_an_earlier_checkpoint_is_read_again(service: Service) -> None:
    run = make_run(service.logdir)
    log, before = run / "progress.jsonl", [{"steps": step} for step in range(0, 1000, 100)]
    write = lambda lines: log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))  # noqa: E731
    write(before)
    assert service.index.progress(run) == before
    after = [*before[:5], *({"steps": step, "resumed": True} for step in range(500, 2000, 100))]
    write(after)  # longer than at the last look
    assert service.index.progress(run) == after


def test_a_damaged_run_gives_what_can_be_read(client: Any, service: Service) -> None:
    run = make_run(service.logdir)
    with (run / "progress.jsonl").open("a") as log:
        log.write('{"steps": "a"}\n{"steps": 20000, "eval/success_rate": NaN}\n')
    identifier = client.get("/api/runs").json()[0]["id"]
    lines = client.get(f"/api/runs/{identifier}/progress?after=10000").json()
    assert lines == [{"steps": 20000, "eval/success_rate": None}]
    assert 'data: {"steps":20000,"eval/success_rate":null}' in client.get(f"/api/runs/{identifier}/events").text
    (run / "config.yaml").write_text("[]")
    assert client.get(f"/api/runs/{identifier}").status_code == 422


@pytest.mark.parametrize("key", ["run", "job", "file", "stop", "resume"])
def test_a_key_that_does_not_exist_is_a_mistake_of_the_config(key: str, client: Any) -> None:
    for operation in ("check", "start_training"):
        answer = client.post(f"/api/{operation}", json={key: "x"})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, key)


def test_text_that_is_no_json_is_named(client: Any) -> None:
    answer = client.post("/api/check", content="notjson", headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "body")


def test_mistakes_have_the_words_of_the_command_line(client: Any, service: Service) -> None:
    answer = client.post("/api/runs", json={"algo": "sacc"})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["field"] == "algo"
    assert error["message"].startswith("algo: 'sacc' is not a known algorithm; allowed:")
    (error,) = client.post("/api/start_training", json={"strategy": "curiculum"}).json()["errors"]
    assert "did you mean 'curriculum'?" in error["message"]
    (error,) = client.post("/api/runs", json={"logdir": "/tmp/elsewhere"}).json()["errors"]
    assert error["field"] == "logdir"
    assert service.jobs.queue.newest() == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"strategy": "ewc", "algo": "trpo"}, ["strategy: 'ewc' requires", "ppo or sac"]),
        ({"strategy": "reptile", "algo": "sac"}, ["strategy: 'reptile' requires", "ppo"]),
        ({"algo": "dqn", "actions": {"discrete": None, "combined": False}}, ["algo: 'dqn' requires", "combined: true"]),
    ],
)
def test_a_strategy_or_algorithm_that_requires_another_run_is_refused(
    client: Any, service: Service, body: dict[str, Any], words: list[str]
) -> None:
    for operation in ("start_training", "check"):
        answer = client.post(f"/api/{operation}", json={"task": "reach", **body})
        assert answer.status_code == 422
        (error,) = answer.json()["errors"]
        assert error["field"] == words[0].partition(":")[0]
        assert all(word in error["message"] for word in words), error["message"]
    assert service.jobs.queue.newest() == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"pretrained": "runs/none"}, "pretrained.path: "),
        ({"strategy": "demos", "strategy_params": {"dataset": "none"}}, "strategy_params.dataset: "),
        (
            {"strategy": "demos+curriculum", "strategy_params": {"demos": {"dataset": "none"}}},
            "strategy_params.demos.dat",
        ),
        ({"strategy": "distill", "strategy_params": {"teacher": "none"}}, "strategy_params.teacher: "),
    ],
)
def test_a_source_that_does_not_exist_is_refused(
    client: Any, service: Service, body: dict[str, Any], message: str
) -> None:
    for operation in ("start_training", "check"):
        answer = client.post(f"/api/{operation}", json={"task": "reach", "algo": "sac", **body})
        assert answer.status_code == 422
        (error,) = answer.json()["errors"]
        assert error["message"].startswith(message)
        assert "none' is not" in error["message"]
    assert service.jobs.queue.newest() == []


def test_a_complete_run_is_resumed_only_for_more_steps(client: Any, service: Service) -> None:
    values = {"algo": "ppo", "steps": 16, "algo_params": {"n_steps": 8, "batch_size": 8, "n_epochs": 1}, "n_envs": 1}
    short = {"eval": {"episodes": 1, "final_episodes": 1}, "video": {"episodes": 0}, "task_params": {"horizon": 5}}
    train({**values, **short, "logdir": str(service.logdir)})
    identifier = client.get("/api/runs").json()[0]["id"]
    answer = client.post(f"/api/runs/{identifier}/resume", json={"steps": 8})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["message"].startswith("steps: 8 is no longer than the run, which is complete")
    assert service.jobs.queue.newest() == []
    assert client.post(f"/api/runs/{identifier}/resume", json={"steps": 32}).status_code == 201
    assert client.post(f"/api/runs/{identifier}/evaluate").status_code == 201


def test_a_run_without_a_policy_is_not_evaluated(client: Any, service: Service) -> None:
    make_run(service.logdir)
    identifier = client.get("/api/runs").json()[0]["id"]
    answer = client.post(f"/api/runs/{identifier}/evaluate")
    assert answer.status_code == 422
    assert "policy.safetensors: cannot be loaded: the file does not exist" in answer.json()["errors"][0]["message"]
    assert service.jobs.queue.newest() == []


def test_all_mistakes_of_a_foreign_body_are_listed(client: Any, service: Service) -> None:
    body = {
        "strategy": "custom",
        "model_name": "meta-llama/Llama-3.2-3B",
        "dataset": "/path/to/dataset.jsonl",
        "stesp": 1000,
        "eval": {"evry": 5, "episodes": 0},
        "algo": "ppo",
        "algo_params": {"gama": 0.9, "gae_lambda": 3.0},
        "pretrained": "/etc/passwd",
    }
    answer = client.post("/api/start_training", json=body)
    assert answer.status_code == 422
    messages = {error["field"]: error["message"] for error in answer.json()["errors"]}
    wanted = {
        "strategy": ("'custom'", "curriculum"),
        "model_name": ("is not a config key", "algo", "pretrained"),
        "dataset": ("is not a config key", "strategy_params.dataset", "demos"),
        "stesp": ("is not a config key", "did you mean 'steps'?"),
        "eval.evry": ("is not a config key", "did you mean 'every'?"),
        "eval.episodes": ("0", "1"),
        "algo_params.gama": ("'gama'", "did you mean 'gamma'?"),
        "algo_params.gae_lambda": ("3.0", "at most 1"),
        "pretrained": ("'/etc/passwd'", "is outside the log directory"),
    }
    assert set(messages) == set(wanted)
    for field, words in wanted.items():
        assert all(word in messages[field] for word in words), messages[field]
    assert service.jobs.queue.newest() == []


@pytest.mark.parametrize(
    "body",
    [
        {"pretrained": {"path": "/etc/passwd"}},
        {"task": [{"stages": "/etc/passwd"}]},
        {"algo_params": {"a.b": "/etc/passwd"}},
        {"algo_params.policy": "/etc/passwd"},
        {"strategy_params": {"dataset": "../../../../../../etc"}},
        {"": "/etc/passwd"},
        {"imports": ["/etc/passwd"]},
        {"callbacks": [{"name": "a", "file": "~root/x"}]},
    ],
)
def test_a_path_outside_is_refused_before_anything_reads_it(
    client: Any, monkeypatch: pytest.MonkeyPatch, body: dict[str, Any]
) -> None:
    seen: list[str] = []
    make_plan = plan.make_plan
    monkeypatch.setattr(plan, "make_plan", lambda **values: seen.append(str(values)) or make_plan(**values))
    check_names = plan.check_names
    monkeypatch.setattr(plan, "check_names", lambda config: seen.append(str(config)) or check_names(config))
    for operation in ("runs", "start_training", "check"):
        answer = client.post(f"/api/{operation}", json=body)
        assert answer.status_code == 422
        assert answer.json()["errors"]
    assert not [text for text in seen if "etc" in text or "~root" in text]


def test_a_run_takes_what_explain_prints(client: Any) -> None:
    for operation in ("runs", "start_training"):
        assert client.post(f"/api/{operation}", json={"task": "switch"}).json()["title"] == "ppo · switch"
    rows = {row["key"]: row for row in client.post("/api/check", json={"task": "switch"}).json()["values"]}
    assert [rows[key]["value"] for key in ("algo", "reward", "n_envs", "steps")] == ["ppo", "shaped", 32, 500_000]
    assert rows["n_envs"]["origin"] == "algorithm ppo, for several stages"
    assert rows["algo_params.n_steps"]["value"] == 64


@pytest.mark.parametrize(
    ("path", "near"), [("run", "/api/runs"), ("start_trainin", "/api/start_training"), ("q" * 60, "")]
)
def test_an_unknown_operation_is_json_with_the_nearest(client: Any, path: str, near: str) -> None:
    for answer in (client.get(f"/api/{path}"), client.post(f"/api/{path}", json={})):
        assert answer.status_code == 404
        (error,) = answer.json()["errors"]
        assert f"'/api/{path}'" in error["message"]
        assert "/api/registry" in error["message"]
        assert ("did you mean" in error["message"]) == bool(near)
        assert near in error["message"]


def test_another_method_of_an_operation_is_named(client: Any) -> None:
    answer = client.get("/api/start_training")
    assert answer.status_code == 405
    assert "'GET'" in answer.text
    assert "POST" in answer.text
    assert client.get("/api/meshes/0123456789abcdef").status_code == 404


def test_strategies_and_controllers_have_parameters(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "algos").mkdir()
    (tmp_path / "algos" / "broken.py").write_text(
        "from mygym.strategies.strategy import Strategy, register_strategy\n\n\n@register_strategy('broken')\n"
        "class Broken(Strategy):\n    raise RuntimeError('of the user')\n"
    )
    rows = {row["name"]: row for row in client.get("/api/registry/strategy").json()}
    (rank,) = [row for row in rows["lora"]["parameters"] if row["name"] == "rank"]
    assert (rank["type"], rank["default"]) == ("a whole number", 8)
    assert rank["help"]
    assert "of the user" in rows["broken"]["error"]
    controllers = {row["name"]: row for row in client.get("/api/registry/controller").json()}
    assert "step" in {row["name"] for row in controllers["ee_delta"]["parameters"]}


@pytest.mark.parametrize("path", ["start_training?prio=5", "runs?priority=5&slot=1", "check?priority=5"])
def test_an_unknown_query_parameter_is_refused(client: Any, path: str) -> None:
    answer = client.post(f"/api/{path}", json={"algo": "sac"})
    assert answer.status_code == 422
    assert "is no parameter of this operation" in answer.json()["errors"][0]["message"]
    assert client.get("/api/jobs").json() == []
    assert client.get("/api/jobs?stat=x").status_code == 422


def test_an_unknown_status_of_a_filter_is_refused(client: Any) -> None:
    answer = client.get("/api/runs?status=don")
    assert answer.status_code == 422
    assert "did you mean 'done'?" in answer.json()["errors"][0]["message"]
    assert client.get("/api/runs?status=starting").json() == []


def test_training_starts_by_post(client: Any, service: Service) -> None:
    body = {"strategy": "standard", "algo": "sac", "steps": 1000}
    answer = client.post("/api/start_training?priority=3", json=body)
    assert answer.status_code == 201
    assert answer.json()["status"] == "queued"
    identifier = answer.json()["id"]
    assert client.get(f"/api/runs/{identifier}").json()["priority"] == 3
    assert client.get("/api/runs").json()[0]["id"] == identifier
    (job,) = client.get("/api/jobs").json()
    assert job["state"] == "queued"
    assert client.post(f"/api/runs/{identifier}/stop").status_code == 202
    assert client.get("/api/jobs/1").json()["state"] == "cancelled"
    assert client.post(f"/api/runs/{identifier}/stop").status_code == 409


def test_user_files_appear_without_a_restart(client: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert "late_reward" not in client.get("/api/registry/reward").text
    (tmp_path / "envs").mkdir()
    source = "from mygym.tasks.rewards import register_reward\n\n\n@register_reward('late_reward')\n"
    source += "def late_reward(achieved_goal, desired_goal):\n    return -abs(achieved_goal - desired_goal).sum(-1)\n"
    (tmp_path / "envs" / "late.py").write_text(source)
    assert "late_reward" in client.get("/api/registry/reward").text


def test_description_of_the_api_needs_no_network(client: Any) -> None:
    page = client.get("/api").text
    assert "/api/start_training" in page
    assert "https://" not in page
    assert client.get("/openapi.json").json()["paths"]["/api/start_training"]


def test_hyperparameters(client: Any) -> None:
    rows = {row["name"]: row for row in client.get("/api/parameters/sac").json()}
    assert rows["learning_rate"]["help"]
    assert "at least" in rows["gamma"]["type"] or "[" in rows["gamma"]["type"] or "to" in rows["gamma"]["type"]


def test_command_line_and_yaml_of_a_config(client: Any, service: Service) -> None:
    config = {"algo": "tqc", "steps": 5000, "algo_params": {"gamma": 0.9}, "eval": {"every": 100}}
    content = client.post("/api/check", json=config).json()
    command = "mygym train --algo tqc --steps 5000 --set algo_params.gamma=0.9 --set eval.every=100"
    assert content["command"] == f"{command} --logdir {service.logdir}"
    assert command_line(config, Path("runs").absolute()) == command
    assert "gamma: 0.9" in content["yaml"]


def test_the_token_stays_secret_on_disk(service: Service) -> None:
    token = stored_token(service.logdir)
    assert stored_token(service.logdir) == token
    assert (service.jobs.folder / "token").stat().st_mode & 0o077 == 0
