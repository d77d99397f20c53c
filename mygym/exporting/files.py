"""Files of a graph: an ONNX model, or a program of `torch.export`, each with the description in its metadata."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.distributions import Distribution

from mygym.exporting.formats import METADATA, ROWS
from mygym.exporting.graph import ActingGraph
from mygym.registry import resolve


def to_onnx(graph: ActingGraph, description: Mapping[str, Any]) -> bytes:
    """Return the content of an ONNX file.

    Args:
        graph: The acting part of a policy.
        description: Content of the metadata.

    Raises:
        Exception: The network does something that a graph cannot express; of torch, of any kind.
    """
    onnx = resolve("onnx:checker")
    with _tracing():
        example = graph.example()
        exported = torch.onnx.export(
            _traced(graph, example), input_names=list(example), output_names=list(graph(example)), verbose=False
        )
    assert exported is not None
    model = exported.model_proto
    _tidy(model)
    model.metadata_props.add(key=METADATA, value=json.dumps(description))
    onnx.check_model(model)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def to_pt2(graph: ActingGraph, description: Mapping[str, Any]) -> bytes:
    """Return the content of a file of `torch.export`; its function maps a dictionary of arrays to another.

    Args:
        graph: The acting part of a policy.
        description: Content of the metadata.

    Raises:
        Exception: The network does something that a graph cannot express; of torch, of any kind.
    """
    with _tracing():
        program = _traced(graph, graph.example())
        for node in program.graph.nodes:  # the notes name files of this machine
            node.meta.pop("stack_trace", None)
            node.meta.pop("nn_module_stack", None)
            node.meta.pop("source_fn_stack", None)
        content = io.BytesIO()
        torch.export.save(program, content, extra_files={METADATA: json.dumps(description)})
    return content.getvalue()


WRITERS: Mapping[str, Callable[[ActingGraph, Mapping[str, Any]], bytes]] = {".onnx": to_onnx, ".pt2": to_pt2}
"""Suffix of a file → function that returns its content."""


def _traced(graph: ActingGraph, example: Mapping[str, torch.Tensor]) -> Any:
    rows = torch.export.Dim(ROWS)
    shapes = {name: {axis: rows} for name, axis in graph.row_axes().items()}
    return torch.export.export(graph, (dict(example),), dynamic_shapes=(shapes,))


@contextlib.contextmanager
def _tracing() -> Iterator[None]:
    """Let torch trace silently: it would print notes and whole graphs; distributions check no arguments meanwhile."""
    validates, disabled = Distribution._validate_args, logging.root.manager.disable
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        Distribution.set_default_validate_args(False)
        try:
            yield
        finally:
            Distribution.set_default_validate_args(validates)
            logging.disable(disabled)


def _tidy(model: Any) -> None:
    """Name the batch axis, and remove the notes of the conversion: they name files of this machine, and are long."""
    for value in (*model.graph.input, *model.graph.output):
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param:
                axis.dim_param = ROWS
    del model.graph.value_info[:]  # has other names of the batch axis
    del model.metadata_props[:], model.graph.metadata_props[:]
    for group in (model.graph.node, model.graph.input, model.graph.output):
        for entry in group:
            del entry.metadata_props[:]
            entry.doc_string = ""
    for tensor in model.graph.initializer:
        del tensor.metadata_props[:]
