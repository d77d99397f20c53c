"""Files of new tasks and of their elements: stages, predicates, rewards, observations, controllers; in `envs/`."""

from __future__ import annotations

from mygym.cli.new.naming import check_free
from mygym.cli.new.request import Request
from mygym.cli.new.templating import (
    checks_test,
    checks_test_file,
    config_file,
    env_test_file,
    fill,
    fill_class,
    template,
)
from mygym.envs.ids import env_id


def task_files(request: Request) -> dict[str, str]:
    """Return the files of a task."""
    check_free("task", request.name)
    return {
        f"envs/{request.name}.py": _task(request, "push an object to a point and withdraw", "table", "cube"),
        **_task_config(request, "Trains the default algorithm on this task."),
        **checks_test_file(request, checks_test("task", request)),
    }


def env_files(request: Request) -> dict[str, str]:
    """Return the files of an environment: a task, its workspace and its object."""
    for kind in ("task", "workspace", "object"):
        check_free(kind, request.name)
    help = "push a block over a small desk to a point and withdraw"
    return {
        f"envs/{request.name}.py": _task(request, help, request.name, request.name),
        f"envs/workspaces/{request.name}.yaml": template("workspace.yaml"),
        f"envs/objects/{request.name}.yaml": template("object.yaml"),
        **_task_config(request, "Trains the default algorithm in this environment."),
        **checks_test_file(request, *(checks_test(kind, request) for kind in ("task", "workspace"))),
    }


def _task(request: Request, help: str, workspace: str, asset: str) -> str:
    values = {"env_id": env_id(request.name), "help": help, "workspace": workspace, "object": asset}
    return fill("task.py", request, **values)


def _task_config(request: Request, help: str) -> dict[str, str]:
    return config_file(request, {"task": request.name, "reward": "sparse"}, help)


def stage_files(request: Request) -> dict[str, str]:
    """Return the files of a stage."""
    check_free("stage", request.name)
    config = {"task": f"[approach, grasp, {request.name}]", "reward": "shaped"}
    return {
        f"envs/{request.name}.py": fill("stage.py", request),
        **config_file(request, config, "Trains the default algorithm on a task that ends with this stage."),
        **checks_test_file(request, checks_test("stage", request)),
    }


def predicate_files(request: Request) -> dict[str, str]:
    """Return the files of a predicate, and of a stage with the same name that produces it."""
    for kind in ("predicate", "stage"):
        check_free(kind, request.name)
    config = {"task": f"[approach, grasp, {request.name}]", "reward": "shaped"}
    return {
        f"envs/{request.name}.py": fill("predicate.py", request),
        **config_file(request, config, "Trains the default algorithm on a task that ends with this predicate."),
        **checks_test_file(request, checks_test("stage", request)),
    }


def reward_files(request: Request) -> dict[str, str]:
    """Return the files of a reward."""
    check_free("reward", request.name)
    config = {"task": "reach", "reward": request.name}
    return {
        f"envs/{request.name}.py": fill("reward.py", request),
        **config_file(request, config, "Trains the default algorithm on the task reach with this reward."),
        **env_test_file(request),
    }


def observation_files(request: Request) -> dict[str, str]:
    """Return the files of an observation component."""
    check_free("observation", request.name)
    config = {"task": "reach", "observations": f"[ee_position, ee_velocity, command_offset, {request.name}]"}
    return {
        f"envs/{request.name}.py": fill("observation.py", request),
        **config_file(request, config, "Trains the default algorithm on the task reach with this observation."),
        **env_test_file(request),
    }


def controller_files(request: Request) -> dict[str, str]:
    """Return the files of a controller."""
    check_free("controller", request.name)
    config = {"task": "reach", "control": request.name}
    return {
        f"envs/{request.name}.py": fill_class("controller.py", request),
        **config_file(request, config, "Trains the default algorithm on the task reach with this controller."),
        **env_test_file(request),
    }
