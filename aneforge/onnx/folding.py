"""Computing nodes whose inputs are all known, with numpy, in the ONNX dtype.

Shape arithmetic stays exact integers, weights keep their precision, and nothing of it becomes a Tensor. What is not in
`folds` goes to onnx's reference evaluator, but only for the newest version of an operator: for older ones it computes
the newest meaning (Softmax before 13, for one).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .folds import TABLE, Call, Unfoldable
from .inference import newest
from .tensors import Array

BUDGET = 64 << 20
"""Bytes that the results of one node may take, or four times its inputs if that is more."""

SHAPED = frozenset({"Range", "ConstantOfShape"})
"""Operators that exist at import only: the shape of their result is a value of their inputs."""
_RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"}
)
# The reference evaluator was compared for these, on their newest version; elsewhere (LRN, for one) it is wrong, or slow.
# fmt: off
_BY_REFERENCE = frozenset((
    "Acos", "Acosh", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd",
    "BitwiseNot", "BitwiseOr", "BitwiseXor", "Compress", "Cosh", "CumSum", "DepthToSpace", "Einsum", "Elu", "Erf",
    "EyeLike", "GatherND", "Gemm", "HardSigmoid", "IsInf", "LeakyRelu", "LogSoftmax", "Mean", "OneHot", "PRelu",
    "Pad", "QuantizeLinear", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
    "ReverseSequence", "ScatterElements", "ScatterND", "Sinh", "Softmax", "Softplus", "Softsign", "SpaceToDepth",
    "Tan", "TopK",
))
# fmt: on


def fold(
    op: str,
    domain: str,
    version: int,
    since: int | None,
    attributes: Mapping[str, Any],
    inputs: Sequence[Array | None],
    n_outputs: int,
) -> list[Array]:
    """The outputs of a node with known inputs (None: absent).

    Raises:
        Unfoldable: not a node that is computed here; it is no statement about its validity.
    """
    if domain != "" or op in _RANDOM or any(hasattr(v, "nodes") for v in attributes.values()):
        raise Unfoldable(op)
    attributes = {k: v.decode("latin-1") if isinstance(v, bytes) else v for k, v in attributes.items()}
    function = TABLE.get(op)
    given = sum(i.nbytes for i in inputs if i is not None)
    limit = max(BUDGET, 4 * given)
    with np.errstate(all="ignore"):
        try:
            if function is not None:
                made = function(Call(version, limit, n_outputs), *inputs, **attributes)
            else:
                made = _by_reference(op, version, since, attributes, inputs, n_outputs)
        except (Unfoldable, MemoryError):
            raise Unfoldable(op) from None
        except Exception as e:  # a malformed node: whoever computes it says so
            raise Unfoldable(f"{op}: {e}") from e
    outputs = [np.asarray(a) for a in (made if isinstance(made, (list, tuple)) else (made,))]
    if sum(a.nbytes for a in outputs if a.base is None) > limit:
        raise Unfoldable(f"{op}: too large to compute at import")
    return outputs


def _by_reference(
    op: str,
    version: int,
    since: int | None,
    attributes: Mapping[str, Any],
    inputs: Sequence[Array | None],
    n_outputs: int,
) -> list[Array]:
    if op not in _BY_REFERENCE or since is None or since != newest(op):
        raise Unfoldable
    if sum(i.nbytes for i in inputs if i is not None) > BUDGET:
        raise Unfoldable
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 - slow to import and seldom needed

    names = [f"i{k}" if a is not None else "" for k, a in enumerate(inputs)]
    outs = [f"o{k}" for k in range(n_outputs)]
    values = {
        k: onnx.numpy_helper.from_array(v) if isinstance(v, np.ndarray) else list(v) if isinstance(v, tuple) else v
        for k, v in attributes.items()
    }
    node = helper.make_node(op, names, outs)
    node.attribute.extend(helper.make_attribute(k, v) for k, v in values.items())
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), list(a.shape))
        for n, a in zip(names, inputs, strict=True)
        if a is not None
    ]
    results = [helper.make_value_info(o, onnx.TypeProto()) for o in outs]
    graph = helper.make_graph([node], "fold", infos, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    made = ReferenceEvaluator(model).run(None, {n: a for n, a in zip(names, inputs, strict=True) if a is not None})
    if any(not isinstance(a, (np.ndarray, np.generic)) for a in made):
        raise Unfoldable
    return [np.asarray(a, object) if np.asarray(a).dtype.kind == "U" else np.asarray(a) for a in made]
