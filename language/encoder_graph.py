"""BERT's encoder as an ONNX graph, written in memory, for ONNX Runtime to compute.

    file, matrices = encoder_graph(weights, layers=6, heads=12)

A layer multiplies bytes (Jacob et al. 2018): weights have a scale for each output, what they are
multiplied with has one for each word piece. So a text's states do not depend on what is read
with it. The file format is Protocol Buffers' (``onnx.proto``): fields of a number and a value. Matrices
stay outside the file: to write and read them would take longer than all the rest.
"""

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_EPSILON = 1e-12
#: The largest weight as a byte. A processor without VNNI adds two products of bytes in 16 bits: up to
#: 64 the sum never overflows, at 80 hardly ever, at 127 so often that vectors are wrong (cosine .96).
_LARGEST = 80
_FLOAT, _INTEGER = 1, 2  # types of attributes
_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int64": 7}  # of tensors
_OURS = "com.microsoft"  # operators that ONNX Runtime adds


def encoder_graph(
    weights: Mapping[str, NDArray[Any]], *, layers: int, heads: int
) -> tuple[bytes, dict[str, NDArray[Any]]]:
    """Return the file of the graph and its matrices by name.

    Its inputs are the sums of embeddings ``embedded`` (pieces, width) of texts of one length, and
    ``shape`` (texts, length, -1); its output is the last layer's states (pieces, width).
    """
    graph = _Graph(weights)
    hidden = graph.norm("embeddings.LayerNorm", "embedded")
    flat = graph.constant(np.array([-1, len(weights["embeddings.LayerNorm.bias"])]))
    for number in range(layers):
        layer = f"encoder.layer.{number}"
        own = f"{layer}.attention"
        mixed = graph.dense([f"{own}.self.{name}" for name in ("query", "key", "value")], hidden)
        parts = graph.add("Split", graph.add("Reshape", mixed, "shape"), outputs=3, axis=-1)
        attended = graph.add("MultiHeadAttention", *parts.split(), domain=_OURS, num_heads=heads)
        attended = graph.add("Reshape", attended, flat)
        attended = graph.dense([f"{own}.output.dense"], attended)
        hidden = graph.norm(f"{own}.output.LayerNorm", graph.add("Add", hidden, attended))
        inner = graph.add("Gelu", graph.dense([f"{layer}.intermediate.dense"], hidden))
        outer = graph.dense([f"{layer}.output.dense"], inner)
        hidden = graph.norm(f"{layer}.output.LayerNorm", graph.add("Add", hidden, outer))
    return graph.file(hidden), graph.matrices


class _Graph:
    """A graph in the making; each method adds operators and returns the name of what they compute."""

    def __init__(self, weights: Mapping[str, NDArray[Any]]) -> None:
        self._weights = weights
        self._fields, self._names = list[bytes](), 0
        self.matrices: dict[str, NDArray[Any]] = {}

    def add(
        self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: float
    ) -> str:
        """Add an operator; the names of several outputs stand side by side."""
        names = [self._name() for _ in range(outputs)]
        node = [_field(1, name) for name in inputs] + [_field(2, name) for name in names]
        for key, value in attributes.items():
            kinds = (2, _FLOAT) if isinstance(value, float) else (3, _INTEGER)
            node.append(_field(5, _field(1, key) + _field(kinds[0], value) + _field(20, kinds[1])))
        self._fields.append(_field(1, b"".join(node) + _field(4, kind) + _field(7, domain)))
        return " ".join(names)

    def constant(self, values: NDArray[Any] | np.generic) -> str:
        """Add a tensor."""
        name, array = self._name(), np.ascontiguousarray(values).reshape(np.shape(values))
        tensor = b"".join(_field(1, size) for size in array.shape)
        tensor += _field(2, _TYPES[array.dtype.name]) + _field(8, name)
        if array.ndim == 2:
            self.matrices[name] = array
            tensor += _field(13, _field(1, "location") + _field(2, "memory")) + _field(14, 1)
        else:
            tensor += _field(9, array.tobytes())
        self._fields.append(_field(5, tensor))
        return name

    def norm(self, name: str, hidden: str) -> str:
        """Add a layer norm."""
        scale, bias = (
            self.constant(self._weights[f"{name}.{part}"]) for part in ("weight", "bias")
        )
        return self.add("LayerNormalization", hidden, scale, bias, epsilon=_EPSILON)

    def dense(self, names: list[str], hidden: str) -> str:
        """Add dense layers that read the same, side by side."""
        weight = np.concatenate([self._weights[f"{name}.weight"] for name in names])
        bias = self.constant(np.concatenate([self._weights[f"{name}.bias"] for name in names]))
        scales = np.maximum(weight.max(axis=1), -weight.min(axis=1)) / np.float32(_LARGEST)
        weight /= scales[:, None]
        rounded = np.rint(weight, out=weight).astype(np.int8).T
        axis, one = self.constant(np.array([1])), self.constant(np.float32(1))
        low = self.add("ReduceMin", hidden, axis)
        spread = self.add("Sub", self.add("ReduceMax", hidden, axis), low)
        step = self.add("Mul", spread, self.constant(np.float32(1 / 255)))
        above, steps = self.add("Sub", hidden, low), self.add("Squeeze", step, axis)
        read = self.add("QuantizeLinear", above, steps, axis=0)
        factors = (read, self.constant(rounded), one, self.constant(scales))
        products = self.add("MatMulIntegerToFloat", *factors, domain=_OURS)
        # What was taken from every number of a piece is added again, times the sum of the weights.
        sums = self.constant(rounded.sum(axis=0, keepdims=True, dtype=np.float32) * scales)
        return self.add("Add", self.add("Mul", products, step), self.add("Gemm", low, sums, bias))

    def file(self, output: str) -> bytes:
        """Return the file of the graph that computes ``output``."""
        values = (
            (11, "embedded", "float32", 2),
            (11, "shape", "int64", 1),
            (12, output, "float32", 2),
        )
        graph = b"".join(
            [*self._fields, _field(2, "encoder"), *(_value(*value) for value in values)]
        )
        operators = _field(8, _field(2, 21)) + _field(8, _field(1, _OURS) + _field(2, 1))
        return _field(1, 10) + _field(7, graph) + operators

    def _name(self) -> str:
        self._names += 1
        return f"t{self._names}"


def _value(number: int, name: str, kind: str, axes: int) -> bytes:
    """Return the field of an input or output of so many axes, each of any size."""
    tensor = _field(1, _TYPES[kind]) + _field(2, _field(1, b"") * axes)
    return _field(number, _field(1, name) + _field(2, _field(1, tensor)))


def _field(number: int, value: "float | str | bytes") -> bytes:
    """Return a field: a number as a varint, a fraction in four bytes, all else behind its length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value & (1 << 64) - 1)
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Return an integer in groups of seven bits, the lowest first."""
    groups = [number >> shift & 127 for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])
