"""What each operator computes at import: one function an operator, in the ONNX dtype, all versions. See `folding`.

    @folds("Size")
    def size(call: Call, x: Array) -> Array: ...

Inputs come in the operator's order (None: absent), attributes as keywords; an attribute that a function does not take
is an error, and the node is then computed elsewhere. What implementations disagree on is Unfoldable.
"""

from . import activation, arithmetic, constants, indexing, layout, product, quantized, reduction, signal
from .table import TABLE, Call, Unfoldable

__all__ = [
    "TABLE",
    "Call",
    "Unfoldable",
    "activation",
    "arithmetic",
    "constants",
    "indexing",
    "layout",
    "product",
    "quantized",
    "reduction",
    "signal",
]
