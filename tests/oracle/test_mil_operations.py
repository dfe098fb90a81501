"""The evaluator's operations against coremltools' value inference, ONNX Runtime's CPU kernels, and plain loops."""

import itertools
import logging

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from oracle.mil_reference import OPERATIONS
from oracle.registry import Refusal

logging.getLogger("coremltools").setLevel(logging.ERROR)
builder = pytest.importorskip("coremltools.converters.mil").Builder
ct = pytest.importorskip("coremltools")

R = np.random.default_rng(7)
X = R.standard_normal((2, 3, 4, 5))
P = np.abs(X) + 0.25


def inferred(kind, **arguments):
    """What coremltools computes when every operand is known. Floats travel as fp32."""

    def narrow(value):
        if isinstance(value, tuple):
            return tuple(narrow(v) for v in value)
        if isinstance(value, np.ndarray) and value.dtype == np.float64:
            return value.astype(np.float32)
        return np.float32(value) if isinstance(value, float) else value

    result = {}

    @builder.program(input_specs=[builder.TensorSpec(shape=(1,))], opset_version=ct.target.iOS18)
    def program(unused):
        out = getattr(builder, kind)(**{k: narrow(v) for k, v in arguments.items()})
        outs = out if isinstance(out, (tuple, list)) else [out]
        result["values"] = [o.val for o in outs]
        return builder.relu(x=unused)

    assert all(v is not None for v in result["values"]), f"coremltools infers no value for {kind}"
    return result["values"]


def ours(kind, **arguments):
    with np.errstate(all="ignore"):
        out = OPERATIONS[kind](**arguments)
    return out if isinstance(out, tuple) else (out,)


UNARY = (
    "abs atan ceil cos cosh erf exp exp2 floor relu relu6 round sigmoid sign sin sinh softplus softsign square tan tanh"
)
BINARY = "add sub mul real_div floor_div mod maximum minimum equal not_equal greater greater_equal less less_equal"
REDUCED = "sum mean max min prod l1_norm l2_norm sum_square log_sum log_sum_exp"
ROWS = [
    *((kind, {"x": X}) for kind in UNARY.split()),
    ("sqrt", {"x": P}),
    *((kind, {"x": np.tanh(X)}) for kind in ("acos", "asin", "atanh")),
    *((kind, {"x": P, "epsilon": 0.125}) for kind in ("log", "rsqrt", "inverse")),
    *((kind, {"x": X, "y": R.standard_normal((3, 1, 5))}) for kind in BINARY.split()),
    ("round", {"x": np.array([0.5, 1.5, 2.5, -0.5, -1.5])}),
    ("mod", {"x": np.array([7.0, -7.0, 7.0]), "y": np.array([3.0, 3.0, -3.0])}),
    ("pow", {"x": P, "y": R.standard_normal((3, 1, 5))}),
    *((kind, {"x": X, "alpha": 0.3}) for kind in ("elu", "leaky_relu", "threshold", "thresholded_relu")),
    ("thresholded_relu", {"x": np.array([0.5, 1.0, 1.5]), "alpha": 1.0}),
    *((kind, {"x": X, "alpha": 0.3, "beta": 0.7}) for kind in ("linear_activation", "scaled_tanh", "sigmoid_hard")),
    *((kind, {"x": X, "alpha": -0.3, "beta": 0.7}) for kind in ("clip", "clamped_relu")),
    *(("gelu", {"x": X, "mode": m}) for m in ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")),
    ("prelu", {"x": X, "alpha": np.array([0.1, -0.5, 2.0])}),
    ("softplus_parametric", {"x": X, "alpha": np.array([0.1, 0.5, 2.0]), "beta": np.array([1.0, 0.5, 2.0])}),
    ("select", {"cond": X > 0, "a": X, "b": -2 * X}),
    ("logical_not", {"x": X > 0}),
    *((kind, {"x": X > 0, "y": X > 1}) for kind in ("logical_and", "logical_or", "logical_xor")),
    *(
        (f"reduce_{kind}", {"x": P, "axes": np.array(axes, np.int32), "keep_dims": keep})
        for kind in REDUCED.split()
        for axes, keep in (([1], True), ([-1, 1], False))
    ),
    *(("softmax", {"x": X, "axis": a}) for a in (-1, 1)),
    ("layer_norm", {"x": X, "axes": np.array([2, 3]), "gamma": X[0, 0], "beta": X[1, 1], "epsilon": 0.125}),
    ("layer_norm", {"x": X, "axes": np.array([-1]), "epsilon": 1e-5}),
    ("l2_norm", {"x": X, "epsilon": 0.125}),
    ("l2_norm", {"x": X[0], "epsilon": 0.125}),
    ("matmul", {"x": X, "y": R.standard_normal((1, 3, 5, 2))}),
    ("matmul", {"x": X[0, 0], "y": R.standard_normal((2, 5)), "transpose_x": False, "transpose_y": True}),
    ("matmul", {"x": X, "y": R.standard_normal((3, 4, 6)), "transpose_x": True, "transpose_y": False}),
    ("einsum", {"values": (X, R.standard_normal((2, 5, 4, 6))), "equation": "nchw,nwhu->nchu"}),
    ("linear", {"x": X, "weight": R.standard_normal((7, 5)), "bias": R.standard_normal(7)}),
    ("scaled_dot_product_attention", {"query": X, "key": X[:, :, :3], "value": X[:, :, 1:]}),
    ("scaled_dot_product_attention", {"query": X, "key": X, "value": X, "attn_mask": R.standard_normal((4, 4))}),
    ("reshape", {"x": X, "shape": np.array([6, 20], np.int32)}),
    ("transpose", {"x": X, "perm": np.array([2, 0, -1, 1], np.int32)}),
    ("expand_dims", {"x": X[0, 0], "axes": np.array([0, -1], np.int32)}),
    ("squeeze", {"x": X[:1, :1], "axes": np.array([0, 1], np.int32)}),
    ("squeeze", {"x": X[:1, :, :1]}),
    *(("flatten2d", {"x": X, "axis": a}) for a in (1, 2, -1)),
    ("concat", {"values": (X, X[:, :1]), "axis": 1}),
    ("stack", {"values": (X, -X), "axis": 2}),
    ("split", {"x": X, "num_splits": 2, "axis": 2}),
    ("split", {"x": X, "split_sizes": np.array([1, 3, 1], np.int32), "axis": -1}),
    ("slice_by_size", {"x": X, "begin": np.array([0, 1, 2, 1], np.int32), "size": np.array([-1, 2, 1, 3], np.int32)}),
    (
        "slice_by_index",
        {
            "x": X,
            "begin": np.array([0, 1, -1, 4], np.int32),
            "end": np.array([2, 2, 0, 0], np.int32),
            "stride": np.array([1, 1, -2, -1], np.int32),
            "begin_mask": np.array([False, False, True, False]),
            "end_mask": np.array([True, False, False, True]),
            "squeeze_mask": np.array([False, True, False, False]),
        },
    ),
    ("reverse", {"x": X, "axes": np.array([1, -1], np.int32)}),
    ("tile", {"x": X, "reps": np.array([1, 2, 1, 3], np.int32)}),
    *(
        ("pad", {"x": X, "pad": np.array(p, np.int32), "mode": mode, "constant_val": 1.5})
        for mode, p in itertools.product(("constant", "reflect", "replicate"), ([2, 1, 1, 3], [0, 1, 1, 0, 2, 0]))
    ),
    ("fill", {"shape": np.array([2, 3], np.int32), "value": 0.5}),
    ("fill_like", {"ref_tensor": X, "value": 0.5}),
    *(("band_part", {"x": X, "lower": lo, "upper": hi}) for lo, hi in ((-1, 0), (0, -1), (1, 2))),
    *(("topk", {"x": X, "k": 3, "axis": a, "ascending": up}) for a, up in ((-1, False), (1, True))),
]


@pytest.mark.parametrize(("kind", "arguments"), ROWS, ids=[f"{i}-{kind}" for i, (kind, _) in enumerate(ROWS)])
def test_as_coremltools_infers(kind, arguments):
    expected = inferred(kind, **arguments)
    got = ours(kind, **arguments)
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert np.shape(g) == np.shape(e)
        np.testing.assert_allclose(np.asarray(g, np.float64), np.asarray(e, np.float64), rtol=2e-5, atol=2e-6)


def ort(op, opset, inputs, **attributes):
    """One ONNX node on ONNX Runtime's CPU provider."""
    names = [f"i{n}" if a is not None else "" for n, a in enumerate(inputs)]
    arrays = {n: np.asarray(a) for n, a in zip(names, inputs, strict=True) if n}
    arrays = {n: a.astype(np.float32) if a.dtype == np.float64 else a for n, a in arrays.items()}
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)],
        "g",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in arrays.items()
        ],
        [onnx.ValueInfoProto(name="y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, arrays)[0]


def near(got, expected):
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)


def interleaved(pads):
    half = len(pads) // 2
    return np.array([v for pair in zip(pads[:half], pads[half:], strict=True) for v in pair], np.int32)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv_as_onnxruntime(rank, groups):
    x = R.standard_normal((2, 4, *[9, 8, 7][:rank]))
    w = R.standard_normal((8, 4 // groups, *[3, 2, 3][:rank]))
    bias = R.standard_normal(8)
    strides, dilations = [2, 1, 1][:rank], [1, 2, 2][:rank]
    pads = [1, 0, 2, 0, 1, 1][: 2 * rank]
    expected = ort("Conv", 11, [x, w, bias], strides=strides, dilations=dilations, pads=pads, group=groups)
    got = OPERATIONS["conv"](
        x, w, bias=bias, strides=strides, dilations=dilations, groups=groups, pad_type="custom", pad=interleaved(pads)
    )
    near(got, expected)


@pytest.mark.parametrize(("word", "mil"), [("SAME_UPPER", "same"), ("SAME_LOWER", "same_lower"), ("VALID", "valid")])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [2, 3])
def test_auto_pad_as_onnxruntime(word, mil, stride, kernel):
    x, w = R.standard_normal((1, 2, 8, 7)), R.standard_normal((3, 2, kernel, kernel))
    s = [stride, stride]
    near(OPERATIONS["conv"](x, w, strides=s, pad_type=mil), ort("Conv", 11, [x, w], strides=s, auto_pad=word))
    if mil != "same_lower":  # MIL's pools have no same_lower before iOS17, and no lowering emits it
        near(
            OPERATIONS["max_pool"](x, kernel_sizes=[kernel, kernel], strides=s, pad_type=mil),
            ort("MaxPool", 12, [x], kernel_shape=[kernel, kernel], strides=s, auto_pad=word),
        )


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_conv_transpose_as_onnxruntime(rank, groups):
    x = R.standard_normal((2, 4, *[4, 5, 3][:rank]))
    w = R.standard_normal((4, 3, *[3, 2, 4][:rank]))
    bias = R.standard_normal(3 * groups)
    strides, dilations = [2, 1, 3][:rank], [1, 2, 1][:rank]
    pads = [1, 0, 2, 0, 1, 1][: 2 * rank]
    expected = ort("ConvTranspose", 11, [x, w, bias], strides=strides, dilations=dilations, pads=pads, group=groups)
    got = OPERATIONS["conv_transpose"](
        x, w, bias=bias, strides=strides, dilations=dilations, groups=groups, pad_type="custom", pad=interleaved(pads)
    )
    near(got, expected)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("include", [0, 1])
def test_pools_as_onnxruntime(rank, include):
    x = R.standard_normal((2, 3, *[9, 8, 7][:rank]))
    k, s, pads = [3, 2, 3][:rank], [2, 1, 2][:rank], [1, 0, 1, 0, 1, 1][: 2 * rank]
    mil = {"kernel_sizes": k, "strides": s, "pad": interleaved(pads), "pad_type": "custom"}
    near(OPERATIONS["max_pool"](x, **mil), ort("MaxPool", 12, [x], kernel_shape=k, strides=s, pads=pads))
    near(
        OPERATIONS["avg_pool"](x, **mil, exclude_padding_from_average=not include),
        ort("AveragePool", 19, [x], kernel_shape=k, strides=s, pads=pads, count_include_pad=include),
    )
    if rank < 3:
        near(OPERATIONS["l2_pool"](x, **mil), ort("LpPool", 18, [x], kernel_shape=k, strides=s, pads=pads, p=2))


@pytest.mark.parametrize("extent", [5, 6, 7, 8])
@pytest.mark.parametrize("pad", [0, 1])
def test_ceil_mode_extents_as_coremltools(extent, pad):
    """The rule is MIL's own (a window may start in no pad at all), so coremltools' type inference is the judge."""
    x = R.standard_normal((1, 1, extent, extent))
    arguments = {"kernel_sizes": [2, 2], "strides": [3, 3], "pad_type": "custom", "pad": [pad] * 4, "ceil_mode": True}
    shapes = {}

    @builder.program(input_specs=[builder.TensorSpec(shape=x.shape)], opset_version=ct.target.iOS18)
    def program(x):
        y = builder.max_pool(x=x, **arguments)
        shapes["y"] = y.shape
        return y

    assert OPERATIONS["max_pool"](x, **arguments).shape == shapes["y"]


def test_norms_as_onnxruntime():
    x = R.standard_normal((2, 6, 4, 5))
    scale, shift, mean, variance = R.standard_normal((4, 6))
    variance = np.abs(variance)
    near(
        OPERATIONS["batch_norm"](x, mean=mean, variance=variance, gamma=scale, beta=shift, epsilon=0.01),
        ort("BatchNormalization", 15, [x, scale, shift, mean, variance], epsilon=0.01),
    )
    near(
        OPERATIONS["instance_norm"](x, scale, shift, 0.01),
        ort("InstanceNormalization", 6, [x, scale, shift], epsilon=0.01),
    )
    near(
        OPERATIONS["local_response_norm"](x, 3, 0.1, 0.75, 1.5),
        ort("LRN", 13, [x], size=3, alpha=0.1, beta=0.75, bias=1.5),
    )


@pytest.mark.parametrize(
    ("mode", "onnx_mode"),
    [("DEFAULT", "asymmetric"), ("UNALIGN_CORNERS", "half_pixel"), ("STRICT_ALIGN_CORNERS", "align_corners")],
)
@pytest.mark.parametrize("size", [(2, 3), (8, 10), (5, 9)])
def test_resize_as_onnxruntime(mode, onnx_mode, size):
    x = R.standard_normal((1, 2, 4, 5))
    sizes = np.array([1, 2, *size], np.int64)
    near(
        OPERATIONS["resize_bilinear"](x, *size, mode),
        ort("Resize", 13, [x, None, None, sizes], mode="linear", coordinate_transformation_mode=onnx_mode),
    )


def test_nearest_and_upsampling_as_onnxruntime():
    x = R.standard_normal((1, 2, 4, 5))
    rows = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    near(
        OPERATIONS["resize_nearest_neighbor"](x, 8, 15),
        ort("Resize", 13, [x, None, None, np.array([1, 2, 8, 15])], **rows),
    )
    near(
        OPERATIONS["upsample_nearest_neighbor"](x, 2, 3),
        ort("Resize", 13, [x, None, np.array([1, 1, 2, 3], np.float32)], **rows),
    )
    for align, word in ((True, "align_corners"), (False, "half_pixel")):
        near(
            OPERATIONS["upsample_bilinear"](x, 2, 3, align),
            ort(
                "Resize",
                13,
                [x, None, None, np.array([1, 2, 8, 15])],
                mode="linear",
                coordinate_transformation_mode=word,
            ),
        )


def test_block_moves_as_onnxruntime():
    x = R.standard_normal((2, 8, 4, 6))
    near(OPERATIONS["depth_to_space"](x, 2), ort("DepthToSpace", 13, [x], blocksize=2, mode="DCR"))
    near(OPERATIONS["pixel_shuffle"](x, 2), ort("DepthToSpace", 13, [x], blocksize=2, mode="CRD"))
    near(OPERATIONS["space_to_depth"](x, 2), ort("SpaceToDepth", 13, [x], blocksize=2))
    assert np.array_equal(OPERATIONS["pixel_unshuffle"](OPERATIONS["pixel_shuffle"](x, 2), 2), x)


def test_space_to_batch_loop():
    x = R.standard_normal((2, 3, 4, 6))
    y = OPERATIONS["space_to_batch"](x, [2, 3], np.zeros((2, 2), int))
    for (i, j), n, c, h, w in itertools.product(
        itertools.product(range(2), range(3)), range(2), range(3), range(2), range(2)
    ):
        assert y[(i * 3 + j) * 2 + n, c, h, w] == x[n, c, 2 * h + i, 3 * w + j]
    back = OPERATIONS["batch_to_space"](y, [2, 3], np.zeros((2, 2), int))
    assert np.array_equal(back, x)
    padded = OPERATIONS["space_to_batch"](x, [2, 2], np.array([[1, 1], [0, 2]]))
    assert np.array_equal(OPERATIONS["batch_to_space"](padded, [2, 2], np.array([[1, 1], [0, 2]])), x)


def test_crop_and_cast():
    assert np.array_equal(OPERATIONS["crop"](X, (1, 2), (0, 3)), X[..., 1:2, 0:2])
    assert OPERATIONS["cast"](np.array([0, 255], np.uint8), "fp16").tolist() == [0.0, 255.0]
    near(OPERATIONS["silu"](x=X), X / (1 + np.exp(-X)))
    assert OPERATIONS["flatten2d"](X, 0).shape == (1, X.size)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumsum_as_onnxruntime(exclusive, reverse):
    expected = ort("CumSum", 14, [X, np.array(2)], exclusive=exclusive, reverse=reverse)
    near(OPERATIONS["cumsum"](X, 2, bool(exclusive), bool(reverse)), expected)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("reshape", {"x": X, "shape": [6, -1]}),
        ("transpose", {"x": X, "perm": [0, 1, 2, 2]}),
        ("clip", {"x": X, "alpha": 1.0, "beta": 1.0}),
        ("conv", {"x": X, "weight": X, "groups": 2}),
        ("select", {"cond": X > 0, "a": X[:1], "b": X[:1]}),
        ("slice_by_size", {"x": X, "begin": [0, 0, 0, 3], "size": [2, 3, 4, 3]}),
        ("squeeze", {"x": X, "axes": [0]}),
        ("pad", {"x": X, "pad": [0, 5], "mode": "reflect"}),
        ("local_response_norm", {"x": X, "size": 2}),
        ("split", {"x": X, "axis": 1, "num_splits": 2}),
    ],
)
def test_outside_the_definition(kind, arguments):
    with pytest.raises((Refusal, ValueError)):
        OPERATIONS[kind](**arguments)
