"""Formats of exported policies, and the names in their graphs."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

from mygym.tasks.observations import CRITIC

FORMATS = {"onnx": ".onnx", "pt2": ".pt2"}
"""Format → suffix of its files."""

VERSION = 2
"""Number of the form of the description."""

METADATA = "mygym"
"""Key of the description, JSON, in the metadata of a file."""

FLAT = "observation"
"""Name of the input for flat observations; the inputs for dictionary observations have their keys."""

ACTION = "action"
"""Name of the output."""

STATES = ("hidden_state", "cell_state")
"""Inputs of a recurrent policy, `(layers, rows, size)`; the outputs have the prefix `NEXT`."""

NEXT = "next_"

START = "episode_start"
"""Input of a recurrent policy, `(rows,)` float32: 1 where an episode begins, so that the state is ignored, else 0."""

ROWS = "rows"
"""Name of the batch axis."""


def inputs_of(space: spaces.Space[Any]) -> dict[str, spaces.Space[Any]]:
    """Return the space of each array of an observation that a policy takes: the critic's vector is left out."""
    subspaces = space.spaces if isinstance(space, spaces.Dict) else {FLAT: space}
    return {name: subspace for name, subspace in subspaces.items() if name != CRITIC}
