"""Computing nodes whose inputs are all known, with numpy, in the ONNX dtype.

Shape arithmetic stays exact integers, weights keep their precision, and nothing of it becomes a Tensor. What each
operator computes stands in `folds`; onnx's reference evaluator is not asked, since it gives old versions the newest
meaning (Softmax before 13, for one).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .folds import TABLE, Call, Unfoldable
from .tensors import Array

BUDGET = 64 << 20
"""Bytes that the results of one node may take, or four times its inputs if that is more."""

SHAPED = frozenset({"Range", "ConstantOfShape"})
"""Operators that exist at import only: the shape of their result is a value of their inputs."""
_QUANTIZED = frozenset({"QuantizeLinear", "DequantizeLinear"})


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
    function = TABLE.get(op)
    if domain == "com.microsoft" and op in _QUANTIZED:
        domain = ""  # as ONNX's own of version 13
    if domain != "" or function is None or any(hasattr(v, "nodes") for v in attributes.values()):
        raise Unfoldable(op)
    attributes = {k: v.decode("latin-1") if isinstance(v, bytes) else v for k, v in attributes.items()}
    given = sum(i.nbytes for i in inputs if i is not None)
    limit = max(BUDGET, 4 * given)
    with np.errstate(all="ignore"):
        try:
            made = function(Call(version, limit, n_outputs), *inputs, **attributes)
        except (Unfoldable, MemoryError):
            raise Unfoldable(op) from None
        except Exception as e:  # a malformed node: whoever computes it says so
            raise Unfoldable(f"{op}: {e}") from e
    outputs = [np.asarray(a) for a in (made if isinstance(made, (list, tuple)) else (made,))]
    if sum(a.nbytes for a in outputs if a.base is None) > limit:
        raise Unfoldable(f"{op}: too large to compute at import")
    return outputs
