"""Handlers by theme. One function for one ONNX operator; importing this package registers all of them."""

from . import (
    activation,
    arithmetic,
    attention,
    contrib,
    control,
    conversion,
    convolution,
    indexing,
    layout,
    logic,
    normalization,
    pooling,
    product,
    recurrent,
    reduction,
    resampling,
)

__all__ = [
    "activation",
    "arithmetic",
    "attention",
    "contrib",
    "control",
    "conversion",
    "convolution",
    "indexing",
    "layout",
    "logic",
    "normalization",
    "pooling",
    "product",
    "recurrent",
    "reduction",
    "resampling",
]
