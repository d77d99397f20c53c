"""Start from something trained: weights, normaliser, optimisers and replay buffer of an earlier run; frozen layers."""

from __future__ import annotations

import fnmatch
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from sb3_contrib import ARS, TRPO
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.buffers import ReplayBuffer

from mygym.errors import ConfigError, RunError, bad_value
from mygym.planning.plan import RunPlan
from mygym.training import directory, model_factory
from mygym.training.checkpoints.checkpoints import Checkpoint, Checkpoints, ReplayLog
from mygym.training.checkpoints.states import load_normalizer_state
from mygym.training.files import is_file
from mygym.training.policy import load_weights, open_model, read_policy, weights
from mygym.training.vec_wrappers import observation_normalizer

CRITICS = ("critic", "critic_target", "lstm_critic", "qf_state", "vf_state", "value_net", "vf_features_extractor")
"""Names of the modules of policies that estimate values."""

ADAPTERS = ("lora", "ia3", "bottleneck")
"""Strategies that add parameters to networks; the names of these begin with that of the strategy, as in `lora_a`."""

KEY = "pretrained"


def load_pretrained(plan: RunPlan, model: Any, env: Any, resumed: bool = False) -> None:
    """Load the parts that the config's `pretrained` names into a new model, and freeze its layers.

    Raises:
        ConfigError: The source does not exist, lacks something that is wanted, or does not fit.
    """
    section = plan.config.pretrained
    if section.path is not None and not resumed:  # a checkpoint holds everything but the frozen layers
        path = _file(Path(section.path))
        try:
            tensors, normalizer = _read(path, plan, env)
        except RunError as error:
            raise ConfigError(f"{KEY}.path: {error}") from error
        names = weights(model).keys() | tensors.keys()
        chosen = {name for name in names if ("critics" if is_critic(name) else "policy") in section.load}
        _load_weights(model, tensors, chosen, path)
        if "normalizer" in section.load:
            _load_normalizer(env, normalizer, path)
        if {"optimizer", "replay_buffer"} & set(section.load):
            _load_state(model, _checkpoint(path), section.load)
    if section.freeze:
        _freeze(model, section.freeze, plan.config.framework)


def is_critic(name: str) -> bool:
    """Return whether a tensor of a policy belongs to a network that estimates values."""
    return any(module in CRITICS for module in name.split("."))


def _file(path: Path) -> Path:
    """Return the policy file of a run, or the file itself."""
    if path.suffix == ".safetensors" and is_file(path):
        return path
    return directory.find_policy(path, f"{KEY}.path")[1]


def _read(path: Path, plan: RunPlan, env: Any) -> tuple[Mapping[str, torch.Tensor], Mapping[str, Any] | None]:
    """Return the tensors and the normaliser of a policy file or an SB3 file."""
    if path.suffix != ".zip":
        return read_policy(path)
    policy = open_model(path, model_factory.loadable(plan, env), trust=False)
    return weights(policy.model), policy.normalizer


def _load_weights(model: Any, tensors: Mapping[str, torch.Tensor], chosen: set[str], path: Path) -> None:
    """Load the chosen tensors; the other tensors of the model keep their values."""
    current = weights(model)
    for name in sorted(chosen & current.keys()):
        wanted = list(current[name].shape)
        if name not in tensors and _adapter(name):
            continue
        if name not in tensors:
            why = f"has no tensor {name} {wanted}: it belongs to another algorithm or network"
            raise ConfigError(bad_value(f"{KEY}.path", str(path), "a policy with the same networks", why))
        if (shape := list(tensors[name].shape)) != wanted:
            differs = "strategy_params" if _adapter(name) else "observations, actions or net_arch"
            why = f"has {name} {shape}, and this run {wanted}: other {differs}"
            remedy = "a policy with the same networks; runs with spaces: shared have the same for all tasks"
            raise ConfigError(bad_value(f"{KEY}.path", str(path), remedy, why))
    for name in sorted(chosen - current.keys()):
        strategy = _adapter(name)
        remedy = f"it, with strategy: {strategy}" if strategy else "a policy with the same networks"
        remedy += f", or {KEY}.load without critics" if is_critic(name) else ""
        why = f"has {name} {list(tensors[name].shape)}, which this run would leave out"
        raise ConfigError(bad_value(f"{KEY}.path", str(path), remedy, why))
    load_weights(model, {**current, **{name: tensors[name] for name in chosen if name in tensors}})


def _adapter(name: str) -> str | None:
    """Return the strategy that adds a parameter to networks, so that runs without it lack the parameter."""
    strategy = name.rpartition(".")[2].partition("_")[0]
    return strategy if strategy in ADAPTERS else None


def _load_normalizer(env: Any, normalizer: Mapping[str, Any] | None, path: Path) -> None:
    layer = observation_normalizer(env)
    if (layer is None) != (normalizer is None):
        why = "was trained with normalize: " + str(normalizer is not None).lower()
        remedy = f"normalize: {str(normalizer is not None).lower()}, or {KEY}.load without normalizer"
        raise ConfigError(bad_value(f"{KEY}.path", str(path), remedy, why))
    if layer is not None and normalizer is not None:
        load_normalizer_state(layer, normalizer)


def _checkpoint(path: Path) -> Checkpoint:
    """Return the newest checkpoint of the run that a policy file belongs to."""
    run = directory.find(path.parent, f"{KEY}.path")
    checkpoint = Checkpoints(run, keep=1).newest(lambda message: None)
    if checkpoint is None:
        why = "has no checkpoint, which holds optimisers and replay buffer"
        raise ConfigError(bad_value(f"{KEY}.load", str(path.parent), ["policy", "critics", "normalizer"], why))
    return checkpoint


def _load_state(model: Any, checkpoint: Checkpoint, load: Sequence[str]) -> None:
    """Load optimisers and replay buffer of a checkpoint."""
    allowed = f"a run of {type(model).__name__} with the same networks and spaces"
    if "replay_buffer" in load:
        allowed += " (and, for replay_buffer, the same n_envs and a buffer_size that is no smaller; steps may limit it)"
    try:
        if "optimizer" in load:
            parameters = checkpoint.state["algorithm"]["parameters"]
            optimizers = {key: value for key, value in parameters.items() if key.endswith("optimizer")}
            if not optimizers:
                raise LookupError("it has no optimisers of framework pytorch")
            model.set_parameters({**model.get_parameters(), **optimizers}, exact_match=True, device=model.device)
        if "replay_buffer" in load:
            if checkpoint.replay is None or getattr(model, "replay_buffer", None) is None:
                raise LookupError("it has no replay buffer")
            replay = ReplayLog(checkpoint.path.parent)
            replay.load(model.replay_buffer, checkpoint.replay, checkpoint.chunks, checkpoint.steps)
            _truncate_episodes(model.replay_buffer)
    except (LookupError, ValueError, TypeError, RuntimeError, AttributeError, RunError) as error:
        why = f"cannot be loaded: {' '.join(str(error).split())}"
        raise ConfigError(bad_value(f"{KEY}.load", list(load), allowed, why)) from error


def _truncate_episodes(buffer: Any) -> None:
    """Let the episodes that the earlier run had not finished end as by their time limit: the next row begins others."""
    if isinstance(buffer, HerReplayBuffer):
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of SB3: that this is done
            buffer.truncate_last_trajectory()
    elif isinstance(buffer, ReplayBuffer) and buffer.size():
        running = buffer.dones[buffer.pos - 1] == 0
        for array in (buffer.dones, buffer.timeouts) if buffer.handle_timeout_termination else (buffer.dones,):
            array[buffer.pos - 1, running] = 1.0


def _freeze(model: Any, patterns: list[str], framework: str) -> None:
    """Exclude parameters from training."""
    if framework != "pytorch":
        raise ConfigError(bad_value(f"{KEY}.freeze", patterns, "framework pytorch", f"is not possible in {framework}"))
    if isinstance(model, ARS | TRPO) or getattr(model, "is_gradient_free", False):  # TRPO needs all gradients
        name, allowed = type(model).__name__, "[], or an algorithm that trains by an optimiser, such as ppo"
        raise ConfigError(bad_value(f"{KEY}.freeze", patterns, allowed, f"is not possible with {name}"))
    parameters = dict(model.policy.named_parameters())
    for pattern in patterns:
        names = fnmatch.filter(parameters, pattern)
        if not names:
            raise ConfigError(bad_value(f"{KEY}.freeze", pattern, parameters, "matches no parameter"))
        for name in names:
            parameters[name].requires_grad_(False)
    for name, trained in _of_losses(model.policy):
        if not any(parameter.requires_grad for parameter in trained):
            allowed, why = "patterns that leave a parameter of it", f"leaves none of {name} to train"
            raise ConfigError(bad_value(f"{KEY}.freeze", patterns, allowed, why))


def _of_losses(policy: torch.nn.Module) -> Iterator[tuple[str, list[torch.nn.Parameter]]]:
    """Yield the parameters of the policy, and of each of its networks that has a loss of its own, with their names.

    The actor is none of them: its loss has a gradient by the critic.
    """
    yield "the policy", list(policy.parameters())
    for name, module in policy.named_modules():
        optimizer = getattr(module, "optimizer", None)
        if isinstance(optimizer, torch.optim.Optimizer) and name != "actor":
            yield name or "the policy", [parameter for group in optimizer.param_groups for parameter in group["params"]]
