"""Every declared operation that some engine takes, written and read back.

The three were written apart: the declaration's type rule, coremltools' inference, the evaluator's computed shapes.
"""

import logging

import numpy as np
import pytest
from oracle.mil_reference import evaluate

from aneforge import ops
from aneforge.ir import Program, Tensor, const, input
from aneforge.mil import save_package, write
from aneforge.ops.base import DECLARATIONS
from aneforge.targets import resolve

logging.getLogger("coremltools").setLevel(logging.ERROR)
ct = pytest.importorskip("coremltools")
milproto = pytest.importorskip("coremltools.converters.mil.frontend.milproto.load").load

R = np.random.default_rng(11)
IMAGE = (2, 4, 6, 8)


def on(shape, *rows):
    return [(shape, arguments) for arguments in rows]


SIMPLE = (
    "abs atan ceil cos erf exp exp2 floor relu relu6 round sigmoid sign silu sin softplus softsign sqrt square tanh"
)
BINARY = "add sub mul real_div floor_div maximum minimum pow"
COMPARE = "equal not_equal greater greater_equal less less_equal"
REDUCE = "reduce_sum reduce_mean reduce_max reduce_min reduce_l1_norm reduce_l2_norm reduce_sum_square reduce_log_sum"
WINDOW = {"kernel_sizes": (3, 2), "strides": (2, 1), "pad": (1, 0, 1, 1)}
# kind -> calls, each the shape of x and the other arguments
CALLS: dict[str, list] = {
    **{kind: on(IMAGE, {}) for kind in SIMPLE.split()},
    **{kind: on(IMAGE, {"y": R.random((4, 1, 8)) + 0.5}, {"y": 2.0}) for kind in (BINARY + " " + COMPARE).split()},
    **{kind: on(IMAGE, {"epsilon": 0.25}) for kind in ("log", "rsqrt", "inverse")},
    **{kind: on(IMAGE, {"alpha": 0.3}) for kind in ("elu", "leaky_relu", "threshold", "thresholded_relu")},
    **{
        kind: on(IMAGE, {"alpha": -0.3, "beta": 0.7})
        for kind in ("clip", "clamped_relu", "linear_activation", "scaled_tanh", "sigmoid_hard")
    },
    **{
        kind: on(IMAGE, {"axes": (1,), "keep_dims": True}, {"axes": (2, 3), "keep_dims": False})
        for kind in (REDUCE + " reduce_log_sum_exp").split()
    },
    "gelu": on(IMAGE, {"mode": "EXACT"}, {"mode": "TANH_APPROXIMATION"}, {"mode": "SIGMOID_APPROXIMATION"}),
    "prelu": on(IMAGE, {"alpha": R.standard_normal(4)}),
    "softplus_parametric": on(IMAGE, {"alpha": R.standard_normal(4), "beta": R.standard_normal(4)}),
    "softmax": on(IMAGE, {"axis": 1}, {"axis": -1}),
    "conv": [
        *on((1, 4, 9, 8), {"weight": R.standard_normal((6, 4, 3, 3)), "pad": (1, 1, 1, 1)}),
        *on(
            (1, 4, 9, 8),
            {"weight": R.standard_normal((6, 2, 3, 2)), "groups": 2, "strides": (2, 1), "pad": (0, 1, 2, 0)},
        ),
        *on((1, 4, 9, 8), {"weight": R.standard_normal((6, 4, 3, 3)), "dilations": (2, 1), "bias": np.ones(6)}),
        *on((1, 4, 9, 8), {"weight": R.standard_normal((6, 4, 3, 3)), "pad_type": "same", "strides": (2, 3)}),
        *on((1, 4, 9), {"weight": R.standard_normal((6, 4, 3)), "pad": (1, 1)}),
        *on((1, 4, 5, 6, 7), {"weight": R.standard_normal((6, 4, 3, 3, 3)), "pad": (1, 1, 0, 0, 2, 2)}),
    ],
    "conv_transpose": [
        *on((1, 4, 5, 6), {"weight": R.standard_normal((4, 3, 2, 2)), "strides": (2, 2)}),
        *on(
            (1, 4, 5, 6),
            {"weight": R.standard_normal((4, 3, 3, 4)), "strides": (2, 3), "groups": 2, "pad": (1, 0, 2, 1)},
        ),
        *on((1, 4, 5, 6), {"weight": R.standard_normal((4, 3, 3, 3)), "dilations": (2, 1), "bias": np.ones(3)}),
        *on((1, 4, 5), {"weight": R.standard_normal((4, 3, 3)), "strides": (2,), "pad": (1, 1)}),
    ],
    "max_pool": on(IMAGE, WINDOW, {"kernel_sizes": (2, 3), "pad": (1, 1, 1, 1), "ceil_mode": True, "strides": (3, 2)}),
    "avg_pool": on(IMAGE, WINDOW, {**WINDOW, "exclude_padding_from_average": True}),
    "l2_pool": on(IMAGE, WINDOW),
    "matmul": [
        *on((2, 5, 6), {"y": R.standard_normal((6, 7))}, {"y": R.standard_normal((7, 6)), "transpose_y": True}),
        *on((3, 6, 5), {"y": R.standard_normal((1, 6, 7)), "transpose_x": True}),
    ],
    "linear": on((2, 5, 6), {"weight": R.standard_normal((7, 6)), "bias": R.standard_normal(7)}),
    "batch_norm": on(
        IMAGE,
        {"mean": np.ones(4), "variance": np.ones(4), "gamma": np.ones(4), "beta": np.zeros(4), "epsilon": 1e-3},
        {"mean": np.ones(4), "variance": np.ones(4)},
    ),
    "instance_norm": on(IMAGE, {"gamma": np.ones(4), "beta": np.ones(4), "epsilon": 1e-3}),
    "layer_norm": on(IMAGE, {"axes": (3,), "gamma": np.ones(8), "beta": np.ones(8), "epsilon": 1e-3}, {"axes": (2, 3)}),
    "l2_norm": on(IMAGE, {"epsilon": 1e-3}),
    "local_response_norm": on(IMAGE, {"size": 3, "alpha": 0.1, "beta": 0.75, "k": 1.5}),
    "reshape": on(IMAGE, {"shape": (8, 48)}),
    "transpose": on(IMAGE, {"perm": (0, 2, 3, 1)}),
    "expand_dims": on((2, 3), {"axes": (0, 2)}),
    "squeeze": on((1, 3, 1, 2), {"axes": (0, 2)}, {"axes": (0,)}),
    "flatten2d": on(IMAGE, {"axis": 1}, {"axis": 3}),
    "slice_by_size": on(IMAGE, {"begin": (0, 1, 2, 0), "size": (1, 2, 3, 8)}),
    "slice_by_index": on(IMAGE, {"begin": (0, 1, 0, 0), "end": (2, 3, 6, 8), "stride": (1, 1, 2, 1)}),
    "reverse": on(IMAGE, {"axes": (1, 3)}),
    "tile": on(IMAGE, {"reps": (1, 2, 1, 3)}),
    "pad": on(
        IMAGE,
        *({"pad": (0, 0, 0, 0, 1, 2, 3, 0), "mode": mode} for mode in ("reflect", "replicate")),
        {"pad": (1, 2, 3, 0), "constant_val": -0.5},
    ),
    "crop": on(IMAGE, {"crop_height": (1, 2), "crop_width": (0, 3)}),
    "depth_to_space": on(IMAGE, {"block_size": 2}),
    "space_to_depth": on(IMAGE, {"block_size": 2}),
    "pixel_shuffle": on(IMAGE, {"upscale_factor": 2}),
    "pixel_unshuffle": on(IMAGE, {"downscale_factor": 2}),
    "space_to_batch": on(IMAGE, {"block_shape": (2, 2), "paddings": ((1, 1), (0, 2))}),
    "batch_to_space": on((8, 3, 4, 5), {"block_shape": (2, 2), "crops": ((1, 0), (0, 2))}),
    "resize_bilinear": on(
        IMAGE,
        *(
            {"target_size_height": 9, "target_size_width": 5, "sampling_mode": mode}
            for mode in ("DEFAULT", "ALIGN_CORNERS", "STRICT_ALIGN_CORNERS", "UNALIGN_CORNERS", "OFFSET_CORNERS")
        ),
    ),
    "resize_nearest_neighbor": on(IMAGE, {"target_size_height": 12, "target_size_width": 8}),
    "upsample_nearest_neighbor": on(IMAGE, {"scale_factor_height": 2, "scale_factor_width": 3}),
    "upsample_bilinear": on(
        IMAGE, *({"scale_factor_height": 2, "scale_factor_width": 3, "align_corners": a} for a in (True, False))
    ),
    "topk": on(IMAGE, {"k": 2, "axis": -1}, {"k": 1, "axis": 1, "ascending": True, "return_indices": False}),
}
# operations whose operands are not one tensor x and numbers
PACKED = {
    "constexpr_affine_dequantize": lambda: ops.constexpr_affine_dequantize(
        const(R.integers(-127, 128, (6, 8)), "int8"), 0, const(R.random(6).astype(np.float16)), 0
    ),
    "constexpr_lut_to_dense": lambda: ops.constexpr_lut_to_dense(
        const(R.integers(0, 16, (6, 8)).astype(np.uint8), "uint4"),
        const(np.sort(R.standard_normal(16)).astype(np.float16).reshape(1, 1, 16, 1)),
    ),
    "constexpr_sparse_to_dense": lambda: ops.constexpr_sparse_to_dense(
        const(R.random(3).astype(np.float16)),
        const((np.arange(48) % 16 == 0).astype(np.uint8).reshape(6, 8), "uint1"),
    ),
    "constexpr_blockwise_shift_scale": lambda: ops.add(
        ops.constexpr_blockwise_shift_scale(
            const(R.integers(-127, 128, (6, 8)), "int8"), const(R.random((6, 2)).astype(np.float16))
        ),
        0.0,
    ),
}
SPECIAL = {
    **{
        kind: lambda make=make: ops.matmul(input("x", (2, 8)), make(), transpose_y=True)
        for kind, make in PACKED.items()
    },
    "cast": lambda: ops.cast(input("x", IMAGE, "uint8"), "fp16"),
    "select": lambda: ops.select(ops.greater(input("x", IMAGE), 0.0), input("a", IMAGE), input("b", IMAGE)),
    "logical_not": lambda: ops.logical_not(ops.greater(input("x", IMAGE), 0.0)),
    "concat": lambda: ops.concat((input("x", IMAGE), input("b", (2, 3, 6, 8))), axis=1),
    "stack": lambda: ops.stack((input("x", (2, 3)), input("b", (2, 3))), axis=1),
    "split": lambda: ops.split(input("x", IMAGE), num_splits=2, axis=3),
    "scaled_dot_product_attention": lambda: ops.scaled_dot_product_attention(*(input(n, (1, 2, 5, 8)) for n in "qkv")),
}
REFUSED_AT_CALL = {"einsum"}


def cases():
    for kind, calls in CALLS.items():
        for i, (shape, arguments) in enumerate(calls):
            yield pytest.param(
                lambda k=kind, s=shape, a=arguments: DECLARATIONS[k](input("x", s), **a),
                id=f"{kind}-{i}",
            )
    for kind, call in SPECIAL.items():
        yield pytest.param(call, id=kind)


def program_of(made) -> Program:
    """A program with the float results as outputs; masks are turned into floats, indices left behind."""
    results = made if isinstance(made, tuple) else (made,)
    outputs = []
    for i, t in enumerate(results):
        if t.dtype == "bool":
            ones = np.ones(t.shape)
            outputs.append((f"o{i}", ops.select(t, ones, 0 * ones)))
        elif t.dtype == "fp16":
            outputs.append((f"o{i}", t))
    leaves: dict[str, Tensor] = {}
    pending = [t.op for _, t in outputs]
    while pending:
        op = pending.pop()
        if op.kind == "input":
            leaves[op.params["name"]] = op.outputs[0]
        pending += [s.op for s in op.sources]
    return Program(sorted(leaves.items()), outputs)


@pytest.mark.parametrize("make", cases())
@pytest.mark.parametrize("numerics", ["engine", "fp32"])
def test_three_readings(make, numerics, tmp_path):
    program = program_of(make())
    mil = write(program, numerics)
    arrays = {
        p.mil: R.integers(0, 255, p.type.shape).astype(np.uint8)
        if p.type.dtype == "uint8"
        else R.random(p.type.shape) + 0.25
        for p in mil.inputs
    }
    out = evaluate(mil.text, mil.blob, arrays, "fp32" if numerics == "fp32" else "fp16")
    assert {n: a.shape for n, a in out.items()} == {p.mil: p.type.shape for p in mil.outputs}
    if any(p.type.dtype == "uint8" for p in mil.inputs):
        return  # Core ML has no such port
    path = save_package(mil, tmp_path / "net.mlpackage")
    model = ct.models.MLModel(str(path), skip_model_load=True)
    loaded = milproto(model.get_spec(), specification_version=9, file_weights_dir=model.weights_dir)
    assert [v.shape for v in loaded.functions["main"].outputs] == [t.shape for _, t in program.outputs]


def test_nothing_is_left_out():
    newest = resolve("m5")
    wanted = {kind for kind in DECLARATIONS if newest.supports(kind) is None} - REFUSED_AT_CALL
    assert wanted <= set(CALLS) | set(SPECIAL)
