"""The API: a thin layer whose mistakes have the words of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mygym.dashboard.service import Service, command_line, stored_token
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
    assert events.count('data: {"steps"') == 11
    assert events.endswith("event: end\ndata: {}\n\n")
    assert client.get("/api/runs/000000000000").status_code == 404
    assert client.post(f"/api/runs/{identifier}/stop").status_code == 409


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


def test_command_line_and_yaml_of_a_config(client: Any) -> None:
    config = {"algo": "tqc", "steps": 5000, "algo_params": {"gamma": 0.9}, "eval": {"every": 100}}
    content = client.post("/api/check", json=config).json()
    command = "mygym train --algo tqc --steps 5000 --set algo_params.gamma=0.9 --set eval.every=100"
    assert content["command"] == command == command_line(config)
    assert "gamma: 0.9" in content["yaml"]


def test_the_token_stays_secret_on_disk(service: Service) -> None:
    token = stored_token(service.logdir)
    assert stored_token(service.logdir) == token
    assert (service.jobs.folder / "token").stat().st_mode & 0o077 == 0
