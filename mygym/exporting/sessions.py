"""Functions of exported policies: of ONNX files by onnxruntime, of files of `torch.export` by torch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from mygym.exporting.formats import METADATA
from mygym.registry.entries import resolve

Arrays = dict[str, NDArray[Any]]


class Session(Protocol):
    """The function of a file."""

    shapes: dict[str, tuple[Any, ...]]
    """Name of each input → its shape; the number of rows is arbitrary."""
    outputs: tuple[str, ...]
    description: str | None
    """Description in the metadata, JSON."""

    def run(self, outputs: Sequence[str], inputs: Arrays) -> list[NDArray[Any]]:
        """Return outputs for inputs with any number of rows."""


class OnnxSession:
    """An ONNX file in onnxruntime.

    Args:
        path: The file.
        threads: Threads of the computation.

    Raises:
        RegistryError: onnxruntime is not installed.
        Exception: The file is damaged; of onnxruntime, without a common class.
    """

    def __init__(self, path: Path, threads: int) -> None:
        options = resolve("onnxruntime:SessionOptions", "an exported policy")()
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        options.log_severity_level = 4  # errors are raised
        session = resolve("onnxruntime:InferenceSession")(str(path), options, providers=["CPUExecutionProvider"])
        self.shapes = {entry.name: tuple(entry.shape) for entry in session.get_inputs()}
        self.outputs = tuple(entry.name for entry in session.get_outputs())
        self.description: str | None = session.get_modelmeta().custom_metadata_map.get(METADATA)
        self.run = session.run


class TorchSession:
    """A file of `torch.export`, which torch loads by pickles: they can execute any code.

    Args:
        path: The file.
        threads: Threads of the computation, for the whole process.

    Raises:
        Exception: The file is damaged; of torch, without a common class.
    """

    def __init__(self, path: Path, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        contents = {METADATA: ""}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given buffer is not writable")  # torch 2.10, of its reader
            program = torch.export.load(path, extra_files=contents)
        (example,), _ = program.example_inputs
        self._module, self._torch = program.module(), torch
        self.shapes = {name: tuple(tensor.shape) for name, tensor in example.items()}
        self.description: str | None = contents[METADATA]
        with torch.no_grad():
            self.outputs = tuple(self._module(example))

    def run(self, outputs: Sequence[str], inputs: Arrays) -> list[NDArray[Any]]:
        """Return outputs for inputs with any number of rows."""
        with self._torch.no_grad():
            results = self._module({name: self._torch.as_tensor(inputs[name]) for name in self.shapes})
        return [results[name].numpy() for name in outputs]
