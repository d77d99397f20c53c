"""Files of networks: safetensors, with the conditions of the training in the metadata."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from mygym.errors import ConfigError, bad_value

Built = TypeVar("Built")


def network_bytes(kind: str, network: nn.Module, conditions: Mapping[str, Any]) -> bytes:
    """Return the content of a file.

    Args:
        kind: The command that trains such networks: `detector`, `encoder`.
        network: The network.
        conditions: Plain data, which `read_network` gives back.
    """
    tensors = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    return save(tensors, {"kind": f"mygym {kind}", kind: json.dumps(conditions)})


def read_network(
    path: str | Path, key: str, kind: str, build: Callable[[dict[str, Any], dict[str, Tensor]], Built]
) -> Built:
    """Return the network in a file of `network_bytes`.

    Args:
        path: The file.
        key: Config key or flag that names the file, for messages.
        kind: See `network_bytes`.
        build: Builds the result from the conditions and the weights.

    Raises:
        ConfigError: The file is missing, or does not contain such a network.
    """
    allowed = f"a file of `mygym {kind} train`"
    try:
        with safe_open(Path(path).expanduser(), framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("kind") != f"mygym {kind}":
                why = f"does not contain {'an' if kind[0] in 'aeiou' else 'a'} {kind}"
                raise ConfigError(bad_value(key, str(path), allowed, why))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a mapping)
        return build(json.loads(metadata[kind]), tensors)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        missing = isinstance(error, FileNotFoundError)
        why = "does not exist" if missing else "cannot be read: it is damaged, or of another version"
        raise ConfigError(bad_value(key, str(path), allowed, why)) from None
