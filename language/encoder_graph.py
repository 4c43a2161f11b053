"""BERT's encoder as an ONNX graph, written in memory, for ONNX Runtime to compute.

    file = encoder_graph(weights, layers=6, heads=12)

A layer multiplies bytes (Jacob et al. 2018): weights have a scale for each output, what they are
multiplied with has one for each word piece. So a text's states do not depend on what is read
with it.
"""

from collections.abc import Mapping
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

_EPSILON = 1e-12
#: The largest weight as a byte. A processor without VNNI adds two products of bytes in 16 bits: up to
#: 64 the sum never overflows, at 80 hardly ever, at 127 so often that vectors are wrong (cosine .96).
_LARGEST = 80
_OURS = "com.microsoft"  # operators that ONNX Runtime adds


def encoder_graph(weights: Mapping[str, NDArray[Any]], *, layers: int, heads: int) -> bytes:
    """Return the file of the graph.

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
    return graph.file(hidden)


class _Graph:
    """A graph in the making; each method adds operators and returns the name of what they compute."""

    def __init__(self, weights: Mapping[str, NDArray[Any]]) -> None:
        self._weights = weights
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []
        self._names = (f"t{number}" for number in count(1))

    def add(
        self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any
    ) -> str:
        """Add an operator; the names of several outputs stand side by side."""
        names = [next(self._names) for _ in range(outputs)]
        self._nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return " ".join(names)

    def constant(self, values: NDArray[Any] | np.generic) -> str:
        """Add a tensor."""
        name = next(self._names)
        self._constants.append(numpy_helper.from_array(np.asarray(values), name))
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
        floats, integers = TensorProto.FLOAT, TensorProto.INT64
        inputs = [
            helper.make_tensor_value_info("embedded", floats, [None, None]),
            helper.make_tensor_value_info("shape", integers, [None]),
        ]
        outputs = [helper.make_tensor_value_info(output, floats, [None, None])]
        graph = helper.make_graph(self._nodes, "encoder", inputs, outputs, self._constants)
        operators = [helper.make_opsetid("", 21), helper.make_opsetid(_OURS, 1)]
        model = helper.make_model(graph, opset_imports=operators, ir_version=10)
        return bytes(model.SerializeToString())
