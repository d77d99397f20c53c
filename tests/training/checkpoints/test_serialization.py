"""Trees of plain data and arrays are restored bit by bit; everything else is refused."""

from __future__ import annotations

import json
import math
from collections import OrderedDict, deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from mygym.training.checkpoints.serialization import STRUCTURE, TENSORS, can_be_saved, from_files, to_files

NUMPY = [np.dtype(code) for code in ("?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8")]
TORCH = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint16, torch.uint32, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64),
]
PLAIN = (type(None), bool, int, float, str, list, tuple, deque, dict, np.generic, np.ndarray, torch.Tensor)


def same(first: Any, second: Any) -> bool:
    """Return whether both values are equal in type, content and every bit."""
    if type(first) is not type(second):
        return False
    if isinstance(first, list | tuple | deque):
        fits = getattr(first, "maxlen", None) == getattr(second, "maxlen", None) and len(first) == len(second)
        return fits and all(map(same, first, second))
    if isinstance(first, dict):
        return len(first) == len(second) and all(
            same(key, again) and same(first[key], second[again]) for key, again in zip(first, second, strict=True)
        )
    if isinstance(first, torch.Tensor):
        fits = (first.dtype, first.shape, second.requires_grad) == (second.dtype, second.shape, False)
        return fits and same(bytes_of(first), bytes_of(second))
    if isinstance(first, np.ndarray | np.generic):
        return (first.dtype, first.shape) == (second.dtype, second.shape) and first.tobytes() == second.tobytes()
    return bool(first == second) or (first != first and second != second)


def bytes_of(tensor: torch.Tensor) -> np.ndarray:
    flat = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    return flat.view(torch.uint8).numpy() if len(flat) else np.zeros(0)


def through(tree: Any) -> Any:
    return from_files(to_files(tree))


# Savable trees ------------------------------------------------------------------------------------------------------


@st.composite
def contents(draw: st.DrawFn, itemsize: int) -> np.ndarray:
    """Return arbitrary bytes `(…, itemsize)`, and so arbitrary NaNs."""
    shape = (*draw(st.lists(st.integers(0, 3), max_size=3)), itemsize)
    count = math.prod(shape)
    return np.frombuffer(draw(st.binary(min_size=count, max_size=count)), np.uint8).reshape(shape)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Return arrays of any type, also non-contiguous views."""
    dtype = draw(st.sampled_from(NUMPY))
    content = draw(contents(dtype.itemsize))
    array = (content % 2 if dtype.kind == "b" else content).view(dtype)[..., 0]
    views = [lambda x: x, np.transpose, lambda x: np.repeat(x, 2, -1)[..., ::2], lambda x: x[..., ::-1]]
    return draw(st.sampled_from(views))(array) if array.ndim else np.array(array)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    dtype = draw(st.sampled_from(TORCH))
    content = torch.from_numpy(draw(contents(dtype.itemsize)).copy())
    if not content.numel():
        tensor = torch.empty(content.shape[:-1], dtype=dtype)
    else:
        tensor = content[..., 0] % 2 == 1 if dtype is torch.bool else content.view(dtype)[..., 0]
    if draw(st.booleans()):
        tensor = tensor.permute(tuple(reversed(range(tensor.ndim))))
    return tensor.requires_grad_() if tensor.is_floating_point() and draw(st.booleans()) else tensor


SCALARS = arrays().filter(lambda array: array.size > 0).map(lambda array: array.reshape(-1)[0])
KEYS = st.text() | st.sampled_from(["$array", "$", "a.b", "__metadata__", "", ".", "\ud800", "\0", "0", "value"])
LEAVES = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), KEYS, arrays(), tensors(), SCALARS),
    st.sampled_from([2**64, -(2**200), -0.0, 5e-324, np.array(7, np.uint64), torch.tensor(1.5)]),
)
ODD_KEYS = st.one_of(KEYS, st.integers(), st.none(), st.booleans(), st.tuples(st.integers(), st.text()))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.builds(deque, st.lists(inner, max_size=4), st.none() | st.integers(0, 5)),
        st.dictionaries(KEYS, inner, max_size=4),
        st.dictionaries(ODD_KEYS, inner, max_size=4),
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(tree=TREES)
def test_trees_are_restored_bit_by_bit(tree: Any) -> None:
    assert can_be_saved(tree)
    assert same(tree, through(tree))


def test_comparison_distinguishes_trees() -> None:
    """Without it, the test above could not fail."""
    trees = [
        *(None, 0, 0.0, False, "", [], (), deque(), deque(maxlen=1), {}, {0: 1}, {"0": 1}, {False: 1}, float("nan")),
        *(np.zeros(1), np.zeros(1, np.float32), np.zeros((1, 1)), np.float64(0), torch.zeros(1), torch.zeros(1).half()),
        *(np.array([np.nan]), -np.array([np.nan]), torch.zeros(1, 1), np.uint64(0)),
    ]
    assert all(same(a, b) == (i == j) for i, a in enumerate(trees) for j, b in enumerate(trees))


@pytest.mark.parametrize("dtype", TORCH, ids=str)
def test_tensors_keep_their_type(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype)
    for view in (tensor, tensor.T, tensor[:, ::2], tensor[:0], tensor[0, 0], tensor[0].expand(4, 3)):
        assert same(view, through({"x": view})["x"])


def test_structure_is_standard_json() -> None:
    content = to_files([math.inf, -math.inf, math.nan, 2**70, "\ud800"])[STRUCTURE]
    assert content.isascii()
    json.loads(content, parse_constant=pytest.fail)


def test_long_integers_are_restored() -> None:
    tree = [10**3000, -(10**3000), 2**63, 2**64, -(2**64)]
    assert same(tree, through(tree))


def test_integers_that_python_does_not_print_are_refused() -> None:
    with pytest.raises(TypeError, match=r"a\.b is a number of more than 10000 bits"):
        to_files({"a": {"b": 10**5000}})
    files = to_files({"a": 2**64}) | {"state.json": b'{"a": {"$int": "0x%s"}}' % (100_000 * b"f")}
    with pytest.raises(ValueError, match=r"not a saved state: ValueError: .*10000 bits"):
        from_files(files)


def test_similar_paths_are_distinguished() -> None:
    tree = {"a.b": np.zeros(1), "a": {"b": np.ones(2)}, "": {"a": {"b": np.ones(3)}}, "a.b#1": np.ones(4), "1.a": 5}
    assert same(tree, through(tree))


def test_restored_arrays_are_writable_copies() -> None:
    array, tensor = np.zeros(3), torch.zeros(3)
    tree = through([array, tensor, array])
    tree[0] += 1
    tree[1] += 1
    assert (array.sum(), tensor.sum(), tree[2].sum(), tree[0].sum(), tree[1].sum()) == (0, 0, 0, 3, 3)


def test_network_and_optimizer_states_are_restored() -> None:
    network = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(network.parameters())
    network(torch.ones(3)).sum().backward()
    optimizer.step()
    tree = through({"network": network.state_dict(), "optimizer": optimizer.state_dict()})
    assert same(dict(network.state_dict()), tree["network"])
    assert same(optimizer.state_dict(), tree["optimizer"])


# Unsavable values ---------------------------------------------------------------------------------------------------


class Custom:
    pass


CYCLIC: list[Any] = []
CYCLIC.append(CYCLIC)
FOREIGN = {
    "object": Custom(),
    "class": Custom,
    "function": print,
    "bytes": b"x",
    "set": {1},
    "complex": 1j,
    "path": Path(),
    "generator": np.random.default_rng(0),
    "objects": np.array([None, 1]),
    "text": np.array(["a"]),
    "dates": np.array(["2020-01-01"], "M8[D]"),
    "records": np.zeros(2, [("a", "f4")]),
    "complex numbers": np.zeros(2, np.complex64),
    "long doubles": np.zeros(2, np.longdouble),
    "a long double": np.longdouble(1),
    "other byte order": np.zeros(2, np.dtype("f4").newbyteorder()),
    "masked": np.ma.array([1, 2], mask=[True, False]),
    "sparse": torch.eye(2).to_sparse(),
    "nowhere": torch.zeros(2, device="meta"),
    "double complex": torch.zeros(2, dtype=torch.complex128),
    "module": torch.nn.Linear(1, 1),
    "scalar": np.bytes_(b"x"),
}


def test_unsavable_value_is_reported_with_its_position() -> None:
    for name in FOREIGN:
        value = FOREIGN[name]
        assert not can_be_saved(value)
        for tree in ({"a": [1, {"b.c": value}]}, {"a": deque([1, {"b.c": (value)}])}):
            assert not can_be_saved(tree)
            with pytest.raises(TypeError, match=r"^a\.1\.b\.c is .*neither plain data nor an array"):
                to_files(tree)
        with pytest.raises(TypeError, match=r"^value is "):
            to_files(value)


def test_cyclic_list_cannot_be_saved() -> None:
    assert not can_be_saved(CYCLIC)
    with pytest.raises(TypeError, match="part of itself"):
        to_files({"a": CYCLIC})


def test_subclasses_of_dict_and_str_become_plain() -> None:
    assert same(through(OrderedDict(a=np.str_("x"))), {"a": "x"})


# Third-party files --------------------------------------------------------------------------------------------------

NODE_KEYS = [
    "$tensor",
    "$array",
    "$scalar",
    "$float",
    "$int",
    "$tuple",
    "$deque",
    "$pairs",
    "$object",
    "$",
    "a",
    "maxlen",
]
NAMES = st.sampled_from(["0", "1", "bfloat", "__class__", ""])
NODES = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), NAMES),
        st.sampled_from([10**300, -1, 2**70, "0x10", "inf", 1e308]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(NODE_KEYS), inner | NAMES, max_size=3),
        st.builds(
            lambda kind, content, length: {kind: content, "maxlen": length}, st.sampled_from(NODE_KEYS), inner, inner
        ),
        st.lists(st.lists(inner, min_size=2, max_size=2), max_size=2).map(lambda pairs: {"$pairs": pairs}),
    ),
    max_leaves=8,
)
TENSOR_FILE = save({"0": torch.ones(2), "1": torch.tensor(3), "bfloat": torch.ones(2, dtype=torch.bfloat16)})


def only_plain(value: Any) -> bool:
    inner = [*value, *value.values()] if isinstance(value, dict) else value
    many = isinstance(value, list | tuple | deque | dict)
    return (
        isinstance(value, PLAIN)
        and type(value).__module__ in ("builtins", "numpy", "torch", "collections")
        and (not many or all(map(only_plain, inner)))
    )


@settings(max_examples=400)
@given(node=NODES)
def test_documents_give_plain_data_or_are_refused(node: Any) -> None:
    try:
        tree = from_files({STRUCTURE: json.dumps(node).encode(), TENSORS: TENSOR_FILE})
    except ValueError:
        return
    assert only_plain(tree)


@settings(max_examples=200)
@given(structure=st.binary(max_size=40) | st.text(max_size=40).map(str.encode), tensors=st.binary(max_size=60))
def test_random_bytes_are_refused(structure: bytes, tensors: bytes) -> None:
    for files in ({STRUCTURE: structure, TENSORS: tensors}, {STRUCTURE: b'{"$tensor": "0"}', TENSORS: tensors}):
        with pytest.raises(ValueError, match="not a saved state"):
            from_files(files)


HEADERS = [
    {"0": {"dtype": "F32", "shape": [2**62, 2**62, 0], "data_offsets": [0, 0]}},
    {"0": {"dtype": "F32", "shape": [2**64], "data_offsets": [0, 8]}},
    {"0": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}},
    {"0": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}},
    {"0": {"dtype": "F32", "shape": [2], "data_offsets": [0, 2**63]}},
    {"0": {"dtype": "F4", "shape": [16], "data_offsets": [0, 8]}},
    {"0": {"dtype": "F8_E8M0", "shape": [8], "data_offsets": [0, 8]}},
    {"0": {"dtype": "object", "shape": [1], "data_offsets": [0, 8]}},
    {"1": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}},
    [],
    5,
]


@pytest.mark.parametrize("header", HEADERS, ids=str)
def test_invalid_tensor_headers_are_refused(header: Any) -> None:
    text = json.dumps(header).encode()
    content = len(text).to_bytes(8, "little") + text + bytes(8)
    with pytest.raises(ValueError, match="not a saved state"):
        from_files({STRUCTURE: b'{"$array": "0"}', TENSORS: content})


@pytest.mark.parametrize("structure", [b"[" * 100_000, b'{"$tuple":' * 5000 + b"1" + b"}" * 5000, b"9" * 10_000])
def test_oversized_documents_are_refused(structure: bytes) -> None:
    with pytest.raises(ValueError, match="not a saved state"):
        from_files({STRUCTURE: structure, TENSORS: TENSOR_FILE})


def test_missing_files_are_refused() -> None:
    for files in ({}, {STRUCTURE: b"1"}, {TENSORS: TENSOR_FILE}):
        with pytest.raises(ValueError, match="not a saved state"):
            from_files(files)


@settings(max_examples=60)
@given(
    tree=TREES, name=st.sampled_from([STRUCTURE, TENSORS]), at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7)
)
def test_damaged_files_give_plain_data_or_are_refused(tree: Any, name: str, at: float, bit: int) -> None:
    """Checksums detect accidental damage; this test covers files with forged checksums."""
    files = to_files(tree)
    content = bytearray(files[name])
    content[int(at * len(content))] ^= 1 << bit
    try:
        again = from_files({**files, name: bytes(content)})
    except ValueError:
        return
    assert only_plain(again)
