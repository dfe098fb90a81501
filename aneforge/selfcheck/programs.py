"""One minimal program for each MIL operation that this package declares, in the form that it sends.

Inputs lie between 0.25 and 1.25, where every operation is smooth and no quirk is met: what is asked here is whether an
operation compiles and computes what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import ops
from ..ir import Program, Tensor, const, input, origin, topological
from ..ops.base import DECLARATIONS

_IMAGE = (1, 4, 6, 8)
_HALF = np.full((1, 4, 6, 8), 0.5)
_WEIGHT = (np.arange(6 * 4 * 3 * 3).reshape(6, 4, 3, 3) % 7 - 3) / 8
_FOUR = np.array([0.5, 1.0, 1.5, 2.0])
_WINDOW = {"kernel_sizes": (2, 2), "strides": (2, 2), "pad": (0, 0, 0, 0)}


def _table() -> dict[str, tuple[tuple[int, ...], Mapping[str, Any]]]:
    """kind -> shape of x, other arguments."""
    plain = (
        "abs atan ceil cos erf exp exp2 floor relu relu6 round sigmoid sign silu sin softplus softsign sqrt square tanh"
    )
    binary = "add sub mul real_div floor_div maximum minimum pow equal not_equal greater greater_equal less less_equal"
    reduce = "sum mean max min l1_norm l2_norm sum_square log_sum log_sum_exp"
    one = ("elu", "leaky_relu", "threshold", "thresholded_relu")
    two = ("clip", "clamped_relu", "linear_activation", "scaled_tanh", "sigmoid_hard")
    table: dict[str, tuple[tuple[int, ...], Mapping[str, Any]]] = {
        **{kind: (_IMAGE, {}) for kind in plain.split()},
        **{kind: (_IMAGE, {"y": _HALF}) for kind in binary.split()},
        **{kind: (_IMAGE, {"epsilon": 0.25}) for kind in ("log", "rsqrt", "inverse")},
        **{kind: (_IMAGE, {"alpha": 0.3}) for kind in one},
        **{kind: (_IMAGE, {"alpha": -0.3, "beta": 0.7}) for kind in two},
        **{f"reduce_{kind}": (_IMAGE, {"axes": (3,), "keep_dims": True}) for kind in reduce.split()},
        **dict.fromkeys(("max_pool", "avg_pool", "l2_pool"), (_IMAGE, _WINDOW)),
        "gelu": (_IMAGE, {"mode": "EXACT"}),
        "prelu": (_IMAGE, {"alpha": _FOUR}),
        "softplus_parametric": (_IMAGE, {"alpha": _FOUR, "beta": _FOUR}),
        "softmax": (_IMAGE, {"axis": 3}),
        "conv": ((1, 4, 9, 8), {"weight": _WEIGHT, "pad": (1, 1, 1, 1)}),
        "conv_transpose": ((1, 4, 5, 6), {"weight": _WEIGHT[:4, :3, :2, :2], "strides": (2, 2)}),
        "matmul": ((2, 6), {"y": _WEIGHT.reshape(36, 6), "transpose_y": True}),
        "linear": ((2, 6), {"weight": _WEIGHT.reshape(36, 6)}),
        "batch_norm": (_IMAGE, {"mean": _FOUR, "variance": _FOUR, "gamma": _FOUR, "beta": _FOUR, "epsilon": 1e-3}),
        "instance_norm": (_IMAGE, {"gamma": _FOUR, "beta": _FOUR, "epsilon": 1e-3}),
        "layer_norm": (_IMAGE, {"axes": (3,), "gamma": np.ones(8), "beta": np.zeros(8), "epsilon": 1e-3}),
        "l2_norm": (_IMAGE, {"epsilon": 1e-3}),
        "local_response_norm": (_IMAGE, {"size": 3, "alpha": 0.1, "beta": 0.75, "k": 1.5}),
        "reshape": (_IMAGE, {"shape": (4, 48)}),
        "transpose": (_IMAGE, {"perm": (0, 2, 3, 1)}),
        "expand_dims": ((2, 3), {"axes": (0,)}),
        "squeeze": ((1, 3, 2), {"axes": (0,)}),
        "flatten2d": (_IMAGE, {"axis": 1}),
        "slice_by_size": (_IMAGE, {"begin": (0, 1, 2, 0), "size": (1, 2, 3, 8)}),
        "slice_by_index": (_IMAGE, {"begin": (0, 1, 0, 0), "end": (1, 3, 6, 8), "stride": (1, 1, 1, 1)}),
        "reverse": (_IMAGE, {"axes": (1,)}),
        "tile": (_IMAGE, {"reps": (1, 2, 1, 1)}),
        "pad": (_IMAGE, {"pad": (0, 0, 0, 0, 1, 2, 3, 0), "mode": "constant", "constant_val": 0.5}),
        "crop": (_IMAGE, {"crop_height": (1, 2), "crop_width": (0, 3)}),
        "depth_to_space": (_IMAGE, {"block_size": 2}),
        "space_to_depth": (_IMAGE, {"block_size": 2}),
        "pixel_shuffle": (_IMAGE, {"upscale_factor": 2}),
        "pixel_unshuffle": (_IMAGE, {"downscale_factor": 2}),
        "space_to_batch": (_IMAGE, {"block_shape": (2, 2), "paddings": ((0, 0), (0, 0))}),
        "batch_to_space": ((8, 3, 4, 5), {"block_shape": (2, 2), "crops": ((0, 0), (0, 0))}),
        "resize_bilinear": (_IMAGE, {"target_size_height": 12, "target_size_width": 16, "sampling_mode": "DEFAULT"}),
        "resize_nearest_neighbor": (_IMAGE, {"target_size_height": 12, "target_size_width": 8}),
        "upsample_nearest_neighbor": (_IMAGE, {"scale_factor_height": 2, "scale_factor_width": 2}),
        "upsample_bilinear": (_IMAGE, {"scale_factor_height": 2, "scale_factor_width": 2, "align_corners": True}),
        "topk": (_IMAGE, {"k": 2, "axis": 3}),
    }
    return table


def _packed(weight: Callable[[], Tensor]) -> Callable[[], Any]:
    return lambda: ops.matmul(input("x", (2, 8)), weight(), transpose_y=True)


_CODES = np.arange(48).reshape(6, 8)
_SPECIAL: dict[str, Callable[[], Any]] = {
    "constexpr_affine_dequantize": _packed(
        lambda: ops.constexpr_affine_dequantize(
            const(_CODES - 24, "int8"), 0, const(np.linspace(0.01, 0.06, 6).astype(np.float16)), 0
        )
    ),
    "constexpr_lut_to_dense": _packed(
        lambda: ops.constexpr_lut_to_dense(
            const((_CODES % 16).astype(np.uint8), "uint4"),
            const(np.linspace(-1, 1, 16).astype(np.float16).reshape(1, 1, 16, 1)),
        )
    ),
    "constexpr_sparse_to_dense": _packed(
        lambda: ops.constexpr_sparse_to_dense(
            const(np.array([0.5, -1.0, 2.0], np.float16)), const((_CODES % 16 == 0).astype(np.uint8), "uint1")
        )
    ),
    "constexpr_blockwise_shift_scale": _packed(
        lambda: ops.add(  # its result feeds nothing but an elementwise operation
            ops.constexpr_blockwise_shift_scale(
                const(_CODES - 24, "int8"), const(np.linspace(0.01, 0.06, 12).astype(np.float16).reshape(6, 2))
            ),
            0.0,
        )
    ),
    "cast": lambda: ops.cast(input("x", _IMAGE, "uint8"), "fp16"),
    "select": lambda: ops.select(ops.greater(input("x", _IMAGE), 0.7), _HALF, 2 * _HALF),
    "logical_not": lambda: ops.logical_not(ops.greater(input("x", _IMAGE), 0.7)),
    "concat": lambda: ops.concat((input("x", _IMAGE), input("z", _IMAGE)), axis=1),
    "stack": lambda: ops.stack((input("x", (2, 3)), input("z", (2, 3))), axis=1),
    "split": lambda: ops.split(input("x", _IMAGE), num_splits=2, axis=1),
    "scaled_dot_product_attention": lambda: ops.scaled_dot_product_attention(*(input(n, (1, 2, 5, 8)) for n in "qkv")),
}


def vocabulary() -> dict[str, Program]:
    """MIL operation -> a program that is this operation (a mask is turned into numbers behind it)."""
    made: dict[str, Program] = {}
    for kind, (shape, arguments) in _table().items():
        with origin(kind):
            made[kind] = program_of(DECLARATIONS[kind](input("x", shape), **arguments))
    for kind, call in _SPECIAL.items():
        with origin(kind):
            made[kind] = program_of(call())
    return dict(sorted(made.items()))


def program_of(made: Tensor | tuple[Tensor, ...]) -> Program:
    """A program of what an operation gave: masks as 0 and 1, positions left behind."""
    outputs = []
    for i, t in enumerate(made if isinstance(made, tuple) else (made,)):
        if t.dtype == "bool":
            ones = np.ones(t.shape)
            outputs.append((f"o{i}", ops.select(t, ones, 0 * ones)))
        elif t.dtype == "fp16":
            outputs.append((f"o{i}", t))
    leaves = [op.outputs[0] for op in topological(t for _, t in outputs) if op.kind == "input"]
    return Program([(t.op.params["name"], t) for t in leaves], outputs)
