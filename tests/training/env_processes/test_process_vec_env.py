"""Environments in processes: same results as in the main process, reported errors, no remaining processes."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest

from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, DivergedError, MygymError, RunError
from mygym.planning.plan import plan_from_python
from mygym.registry.user_files import user_modules
from mygym.training import env_factory, env_processes
from mygym.training.checkpoints.states import env_state, load_env_state
from tests.components import slow_except
from tests.training.env_processes.process_envs import Fatal, OddError, Watched, fail, scaled_env, small_env, watched_env

ROOT = Path(__file__).parents[3]
STILL = np.zeros((2, 3), dtype=np.float32)


UNGUARDED = """
import mygym.errors
from mygym.envs.robot_env import RobotEnv
from mygym.training.env_processes import process_vec_env

try:
    process_vec_env([RobotEnv])
except mygym.errors.MygymError as error:
    print(f"{type(error).__name__}: {error}")
"""


def run_of(count: int, **more: Any) -> Any:
    """Return training environments as a run builds them."""
    return env_factory.make_vec_env(plan_from_python({"task": "reach", "n_envs": count, "env_processes": True, **more}))


def pids(env: Any) -> list[int]:
    return [process.pid for process in env.processes]


def alive(pid: int) -> bool:
    """Return whether the process exists; zombies of other parents do not count."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}  # includes zombies of this process


@pytest.fixture(autouse=True)
def no_process_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check that no test leaves a process, a zombie or an open file."""
    env_processes.resource_tracker.ensure_running()
    before = children(), psutil.Process().num_fds()
    yield
    gc.collect()
    after = children(), psutil.Process().num_fds()
    for pid in after[0] - before[0]:
        os.kill(pid, signal.SIGKILL)
    assert after == before


@pytest.fixture(scope="module", params=[2, 1], ids=["two processes", "one process"])
def shared(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Yield two environments, the second of which is wrapped."""
    env = env_processes.process_vec_env([small_env, watched_env], request.param)
    yield env
    env.close()


@pytest.fixture
def pair() -> Iterator[Any]:
    """Yield two environments whose processes the test may kill."""
    env = run_of(2)
    env.reset()
    yield env
    env.close()


# Interface of SB3 ---------------------------------------------------------------------------------------------------


def assert_equal(first: Any, second: Any) -> None:
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for key, value in first.items():
            assert_equal(value, second[key])
    elif isinstance(first, list | tuple):
        assert len(first) == len(second)
        for item, expected in zip(first, second, strict=True):
            assert_equal(item, expected)
    else:
        np.testing.assert_array_equal(first, second)


@pytest.mark.filterwarnings("ignore:.*reset ignores the options")
def test_processes_equal_environments_in_the_main_process(shared: Any) -> None:
    from stable_baselines3.common.vec_env import DummyVecEnv

    local = DummyVecEnv([small_env, watched_env])
    assert (shared.observation_space, shared.action_space) == (local.observation_space, local.action_space)
    assert shared.render_mode == local.render_mode == "rgb_array"
    for env in (shared, local):
        env.seed(3)
        env.set_options({"any": 1})
    assert_equal(shared.reset(), local.reset())
    rng = np.random.default_rng(0)
    for step in range(30):
        actions = rng.uniform(-1, 1, (2, 3)).astype(np.float32)
        results, expected = shared.step(actions), local.step(actions)
        assert_equal(results, expected)
        assert_equal(shared.reset_infos, local.reset_infos)
        assert all("terminal_observation" in info for info in results[3]) == (step == 24)
    assert_equal(shared.get_images(), local.get_images())
    assert_equal(shared.reset(), local.reset())  # the next episodes: the seed counts once
    for env in (shared, local):
        env.set_attr("noted", 7, indices=[1])
    for calls in (
        lambda env: env.env_method("compute_reward", np.zeros((5, 3)), np.ones((5, 3)), [{}] * 5, indices=[0]),
        lambda env: env.env_method("goal_distance"),
        lambda env: env.env_method("state_dict", indices=1),
        lambda env: env.get_attr("elapsed_steps"),
        lambda env: env.get_attr("noted", indices=1),
        lambda env: [env.has_attr(name) for name in ("task", "noted", "nothing")],
        lambda env: [env.env_is_wrapped(wrapper) for wrapper in (gymnasium.Wrapper, Watched, gymnasium.ActionWrapper)],
    ):
        assert_equal(calls(shared), calls(local))
    local.close()


def test_unread_answer_is_not_confused_with_the_next(shared: Any) -> None:
    """As after Ctrl-C in the middle of a step."""
    shared.reset()
    shared.step_async(STILL)
    assert shared.env_method("goal_distance") == pytest.approx(shared.env_method("goal_distance"))
    shared.step_async(STILL)
    assert shared.get_attr("elapsed_steps") == [2, 2]


@pytest.mark.parametrize("before", slow_except([True, False], False.__eq__))
def test_rewards_of_hindsight_while_the_processes_step(before: bool) -> None:
    env = env_processes.process_vec_env([scaled_env, scaled_env], reward_maker=scaled_env)
    goals = np.zeros((5, 3)), np.ones((5, 3)), [{}] * 5
    if before:
        env.set_attr("scale", 3.0)
    env.reset()
    env.step_async(STILL)
    factor = 3.0 if before else 1.0
    (rewards,) = env.env_method("compute_reward", *goals, indices=[0])
    assert rewards.tolist() == [-factor] * 5
    env.step_wait()
    env.set_attr("scale", 2.0)
    assert env.env_method("compute_reward", *goals, indices=[0])[0].tolist() == [-2.0] * 5
    assert [rewards.tolist() for rewards in env.env_method("compute_reward", *goals)] == [[-2.0] * 5] * 2
    assert env.get_attr("elapsed_steps") == [1, 1]
    env.close()


def test_a_call_between_sending_and_receiving_a_step_keeps_its_results(shared: Any) -> None:
    shared.seed(1)
    shared.reset()
    expected = shared.step(STILL)
    shared.seed(1)
    shared.reset()
    shared.step_async(STILL)
    assert shared.get_attr("elapsed_steps") == [1, 1]
    assert_equal(shared.step_wait(), expected)


# Errors of an environment -------------------------------------------------------------------------------------------


def test_error_in_a_process_is_raised_and_the_processes_continue(shared: Any, capfd: Any) -> None:
    shared.seed(1)
    first = shared.reset()
    with pytest.raises(DivergedError, match=r"^action \[nan, nan, nan\] is not finite") as error:
        shared.step(np.full((2, 3), np.nan, dtype=np.float32))
    assert "robot_env.py" in "".join(error.value.__notes__)  # the process's traceback
    with pytest.raises(RunError, match=r"^environment 1 of 2: ValueError: .*\(4,\), needs \(3,\)"):
        shared.step(np.zeros((2, 4), dtype=np.float32))
    with pytest.raises(RunError, match=r"^environment 2 of 2: AttributeError: .*nothing"):
        shared.env_method("nothing", indices=[1])
    with pytest.raises(RunError, match=r"^environment 2 of 2: .*(pickle|local object)"):
        shared.env_method("local", indices=[1])
    shared.seed(1)
    assert_equal(shared.reset(), first)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("maker", "kind", "message"),
    [
        (partial(RobotEnv, "raech"), ConfigError, r"^task: 'raech' .*did you mean 'reach'"),
        pytest.param(
            partial(fail, OddError("key")),
            RunError,
            r"^environment 2 of 2: OddError: odd odd key",
            marks=pytest.mark.slow,
        ),
        (partial(sys.exit, 3), RunError, r"^the process of environment 2 of 2 died \(exit code 3\)"),
    ],
    ids=["ours", "odd", "exit"],
)
def test_failed_construction_is_reported_and_ends_the_other_processes(
    maker: Any, kind: type[MygymError], message: str, capfd: Any
) -> None:
    with pytest.raises(MygymError, match=message) as error:
        env_processes.process_vec_env([small_env, maker])
    assert type(error.value) is kind
    assert capfd.readouterr().err == ""


def test_processes_import_nothing_from_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "envs").mkdir()
    code = f"open({str(tmp_path / 'executed')!r}, 'w')\nregister_task('reach', override=True)\n"
    (tmp_path / "envs" / "evil.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    user_modules.exclude(tmp_path)
    env_processes.process_vec_env([small_env]).close()
    assert not (tmp_path / "executed").exists()


def test_unpicklable_maker_ends_the_other_processes() -> None:
    with pytest.raises((AttributeError, pickle.PicklingError), match="local"):  # the latter from Python 3.14 on
        env_processes.process_vec_env([small_env, lambda: small_env()])


# Ends of a process ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "moment", slow_except(["before a step", "within a step", "before a call"], "within a step".__eq__)
)
def test_killed_process_is_replaced(pair: Any, moment: str) -> None:
    reasons = []
    env_factory.report_replacements(pair, lambda *arguments: reasons.append(arguments))
    pair.set_attr("noted", 7)
    seeds = [seed for seed, _ in pair.get_attr("episode_seed")]
    last, last_rewards, *_ = pair.step(STILL)
    assert last_rewards[1] != 0.0
    if moment == "within a step":
        os.kill(pids(pair)[1], signal.SIGSTOP)
        pair.step_async(STILL)
    os.kill(pids(pair)[1], signal.SIGKILL)
    pair.processes[1].join()  # so that the next request meets a closed pipe
    if moment == "before a call":
        assert pair.get_attr("elapsed_steps") == [1, 0]
    observations, rewards, dones, infos = pair.step_wait() if moment == "within a step" else pair.step(STILL)
    assert reasons == [("the process of environment 2 of 2 died (signal 9)", 1)]
    assert dones.tolist() == [False, True]
    assert rewards[1] == 0.0
    assert infos[1]["episode"]["r"] == pytest.approx(last_rewards[1])
    assert infos[1]["TimeLimit.truncated"]
    assert (infos[1]["episode"]["l"], infos[1]["elapsed_steps"]) == (2, 1)
    assert_equal(infos[1]["terminal_observation"], {key: values[1] for key, values in last.items()})
    assert (observations["desired_goal"][1] != last["desired_goal"][1]).any()
    assert not pair.step(STILL)[2].any()
    assert pair.get_attr("elapsed_steps") == [3, 1]
    assert pair.get_attr("noted") == [7, 7]
    new_seeds = [seed for seed, _ in pair.get_attr("episode_seed")]
    assert new_seeds[0] == seeds[0]
    assert new_seeds[1] not in seeds


def test_process_replaced_after_a_resume_plays_the_task_of_the_checkpoint() -> None:
    with contextlib.closing(run_of(2, strategy="multitask", env_processes=False)) as first:
        first.env_method("set_weights", [0.0, 1.0])
        first.reset()
        state = env_state(first)
    with contextlib.closing(run_of(2, strategy="multitask")) as env:
        env.env_method("set_weights", [1.0, 0.0])
        env.reset()
        assert load_env_state(env, state)
        os.kill(pids(env)[1], signal.SIGKILL)
        env.processes[1].join()
        assert env.step(np.zeros((2, *env.action_space.shape), np.float32))[2].tolist() == [False, True]
        assert env.get_attr("variant") == [1, 1]


def test_process_that_dies_again_and_again_is_reported() -> None:
    env = env_processes.process_vec_env([RobotEnv, Fatal, RobotEnv], 2)
    env.reset()
    actions = np.zeros((3, 3), dtype=np.float32)
    assert [env.step(actions)[2].tolist() for _ in range(2)] == [[True, True, False]] * 2
    for fetch in (partial(env.step, actions), env.reset):  # every later call has the same error
        with pytest.raises(RunError, match=r"^the process of environments 1 to 2 of 3 died \(exit code 3\)$"):
            fetch()
    assert env.replacements == 2
    env.close()


def test_hanging_process_is_reported_and_killed(pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env_processes, "PATIENCE", 0.5)
    monkeypatch.setattr(env_processes, "GRACE", 1.0)
    os.kill(pids(pair)[1], signal.SIGSTOP)
    process_pids = pids(pair)
    with pytest.raises(RunError, match=r"^the process of environment 2 of 2 has not answered for 0\.5 s$"):
        pair.step(STILL)
    pair.close()
    assert not any(psutil.pid_exists(pid) for pid in process_pids)


def test_close_during_a_step_and_twice(pair: Any) -> None:
    """The processes, which are those of a run, have not imported torch."""
    process_pids = pids(pair)
    for pid in process_pids:
        assert not [file.path for file in psutil.Process(pid).memory_maps() if "torch" in file.path]
    pair.step_async(STILL)
    pair.close()
    assert not any(psutil.pid_exists(pid) for pid in process_pids)
    pair.close()
    with pytest.raises(OSError, match="closed"):
        pair.step(STILL)


def test_garbage_collection_ends_the_processes() -> None:
    env = env_processes.process_vec_env([small_env])
    (pid,) = pids(env)
    del env
    gc.collect()
    assert not psutil.pid_exists(pid)


def test_processes_ignore_signals(capfd: Any) -> None:
    """From the start: a process imports for a second before it executes code of this package."""
    before, done, sent = children(), threading.Event(), []

    def pester() -> None:
        while not done.wait(0.01):
            for pid in children() - before:
                os.kill(pid, signal.SIGINT)
                os.kill(pid, signal.SIGTERM)
                sent.append(pid)

    thread = threading.Thread(target=pester)
    thread.start()
    try:
        env = env_processes.process_vec_env([small_env])
        env.reset()
    finally:
        done.set()
        thread.join()
    assert len(sent) > 10
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    assert len(env.step(STILL[:1])) == 4
    env.close()
    assert capfd.readouterr().err == ""


# Ends of the main process -------------------------------------------------------------------------------------------

SCRIPT = """
import time
from pathlib import Path
from mygym.envs.robot_env import RobotEnv
from mygym.training import env_processes

class Slow(RobotEnv):
    def work(self):
        while not Path(__file__).with_name("go").exists():
            time.sleep(0.01)
        return True

if __name__ == "__main__":
    env_processes.PATIENCE = 2.0
    env = env_processes.process_vec_env([Slow, Slow])
    print(*[process.pid for process in env.processes], flush=True)
    {then}
"""

KEEP_STEPPING = """
    print(*env.env_method("work"), flush=True)
    env.reset()
    while True:
        env.step([[0.0] * 3] * 2)
"""


@pytest.mark.slow
def test_suspended_program_continues_and_killed_program_leaves_no_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(then=KEEP_STEPPING))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        process_pids = [int(word) for word in process.stdout.readline().split()]
        try:
            assert len(process_pids) == 2
            time.sleep(0.2)  # within the work
            os.killpg(process.pid, signal.SIGSTOP)  # Ctrl-Z
            time.sleep(2.2)
            os.killpg(process.pid, signal.SIGCONT)
            time.sleep(0.2)
            (tmp_path / "go").touch()
            assert process.stdout.readline() == "True True\n"
            time.sleep(0.2)  # within the steps
            assert all(alive(pid) for pid in process_pids)
            process.kill()
            assert until(lambda: not any(alive(pid) for pid in process_pids), 2)
        finally:
            process.kill()
            for pid in filter(alive, process_pids):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_program_without_close_ends(tmp_path: Path, python: Any) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(then="env.reset()"))
    done = python("-W", "error", "script.py", timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert not any(alive(int(word)) for word in done.stdout.splitlines()[0].split())


@pytest.mark.slow
def test_a_script_without_a_guard_gets_a_message_that_names_the_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, env=environment)
    assert done.stderr == ""
    assert done.stdout.startswith(f"ConfigError: env_processes: True has each new process import {script}, which")
    assert 'if __name__ == "__main__":' in done.stdout
    assert done.stdout.count("\n") == 1
