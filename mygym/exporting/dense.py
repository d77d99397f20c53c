"""Networks of dense layers in plain numpy, for a single row: quicker and steadier than onnxruntime between other work.

The file is read without the package `onnx`, which a robot's computer need not have: a message of protobuf is a sequence
of fields with a number and a value; the numbers are those of `onnx.proto`. Compared in benchmarks/results/export.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.exporting.formats import ACTION

GRAPH, NODE, INITIALIZER = 7, 1, 5
INPUT, OUTPUT, OPERATOR, ATTRIBUTE, ATTRIBUTE_NUMBER = 1, 2, 4, 5, 3
DIMENSION, KIND, NAME, CONTENT = 1, 2, 8, 9

KINDS: Mapping[int, type[np.generic]] = {1: np.float32, 6: np.int32, 7: np.int64, 11: np.float64}

MOST_STEPS = 16
"""With more operators, such as those of normalisers, onnxruntime is as quick."""

OPERATORS: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Clip": lambda values, low, high: np.minimum(np.maximum(values, low), high),
    "Concat": lambda *rows: np.concatenate(rows),
    "Div": np.divide,
    "Gemm": lambda values, weight, bias=0.0: np.dot(weight, values) + bias,  # weights are (outputs, inputs)
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Relu": lambda values: np.maximum(values, 0),
    "Reshape": lambda values, shape: values,
    "Sub": np.subtract,
    "Tanh": np.tanh,
}
"""Operator → the same for a single row without the batch axis."""


class DenseNetwork:
    """The function of a file for a single row.

    Args:
        path: An ONNX file of `mygym export`.

    Raises:
        ValueError: The graph has other operators than a network of dense layers, or too many.
    """

    def __init__(self, path: Path) -> None:
        (graph,) = (value for number, value in _fields(path.read_bytes()) if number == GRAPH)
        parts = [(number, list(_fields(value))) for number, value in _fields(graph) if number in (NODE, INITIALIZER)]
        self._constants = dict(_tensor(part) for number, part in parts if number == INITIALIZER)
        self._steps = [_step(part) for number, part in parts if number == NODE]
        if len(self._steps) > MOST_STEPS:
            raise ValueError(f"{len(self._steps)} operators are more than {MOST_STEPS}")

    def __call__(self, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the action for the arrays of an observation, without the batch axis."""
        values = {**self._constants, **inputs}
        for function, names, result in self._steps:
            values[result] = function(*[values[name] for name in names])
        return values[ACTION]


def _step(node: list[tuple[int, Any]]) -> tuple[Callable[..., Any], list[str], str]:
    """Return the function of a node, the names of its arguments, and the name of its result.

    Raises:
        ValueError: The operator is not one of a dense network.
    """
    (operator,) = (value.decode() for number, value in node if number == OPERATOR)
    names = [value.decode() for number, value in node if number == INPUT]
    (result,) = (value.decode() for number, value in node if number == OUTPUT)
    if operator == "Cast":
        (to,) = (dict(_fields(value))[ATTRIBUTE_NUMBER] for number, value in node if number == ATTRIBUTE)
        return lambda values: values.astype(KINDS[to]), names, result
    if operator not in OPERATORS:
        raise ValueError(f"{operator} is not an operator of a dense network")
    return OPERATORS[operator], names, result


def _tensor(fields: list[tuple[int, Any]]) -> tuple[str, NDArray[Any]]:
    """Return name and content of a constant."""
    shape = [value for number, value in fields if number == DIMENSION]
    known = dict(fields)
    return known[NAME].decode(), np.frombuffer(known[CONTENT], KINDS[known[KIND]]).reshape(shape)


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field of a message: an integer, or bytes."""
    at = 0
    while at < len(message):
        key, at = _integer(message, at)
        if key & 7 == 0:
            value, at = _integer(message, at)
            yield key >> 3, value
            continue
        size, at = (8, at) if key & 7 == 1 else (4, at) if key & 7 == 5 else _integer(message, at)
        yield key >> 3, message[at : at + size]
        at += size


def _integer(message: bytes, at: int) -> tuple[int, int]:
    """Return an integer, of which each byte has seven bits, and the position after it."""
    value = shift = 0
    while True:
        value |= (message[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 128:
            return value, at
