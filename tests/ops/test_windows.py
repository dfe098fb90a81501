"""Convolutions and pools of any ONNX form, against ONNX Runtime's CPU kernels."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from evaluate import program, run
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from aneforge import ops
from aneforge.errors import Refused
from aneforge.ir import input, verify

R = np.random.default_rng(3)


def onnx_run(op: str, arrays: list[np.ndarray], **attributes) -> np.ndarray:
    names = [f"i{k}" for k in range(len(arrays))]
    node = helper.make_node(op, names, ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in zip(names, arrays, strict=True)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * arrays[0].ndim)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(model)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, arrays, strict=True)))[0]


def compare(build, x: np.ndarray, want: np.ndarray, tolerance: float = 2e-5) -> None:
    built = program(build(input("x0", x.shape)))
    verify(built)
    got = run(built, {"x0": x}, "fp32")["y0"]
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def flat(pads):
    return [p[0] for p in pads] + [p[1] for p in pads]


@st.composite
def windows(draw: st.DrawFn, *, spatial: int | None = None):
    spatial = spatial or draw(st.sampled_from([1, 2]))
    kernel = [draw(st.integers(1, 4)) for _ in range(spatial)]
    return {
        "kernel": kernel,
        "strides": [draw(st.integers(1, 3)) for _ in range(spatial)],
        "pads": [(draw(st.integers(0, k - 1)), draw(st.integers(0, k - 1))) for k in kernel],
        "extents": [draw(st.integers(k, 9)) for k in kernel],
    }


@settings(max_examples=150, deadline=None)
@given(windows(), st.sampled_from(["max", "avg"]), st.booleans(), st.booleans())
def test_pools(window, kind, ceil, count):
    x = R.standard_normal((2, 3, *window["extents"])).astype(np.float32)
    extra = {"count_include_pad": int(count)} if kind == "avg" else {}
    op = "MaxPool" if kind == "max" else "AveragePool"
    want = onnx_run(
        op,
        [x],
        kernel_shape=window["kernel"],
        strides=window["strides"],
        pads=flat(window["pads"]),
        ceil_mode=int(ceil),
        **extra,
    )
    outs = tuple(
        ops.onnx_windows(d, k, s, 1, *p, ceil)
        for d, k, s, p in zip(window["extents"], window["kernel"], window["strides"], window["pads"], strict=True)
    )
    if want.shape[2:] != outs:
        return  # ONNX Runtime's old rule for a last window in the padding; the operator's text wins
    compare(lambda t: ops.pool_any(t, kind, window["kernel"], window["strides"], window["pads"], ceil, count), x, want)


@settings(max_examples=80, deadline=None)
@given(windows(), st.sampled_from([1, 3]), st.integers(1, 2))
def test_convolutions(window, groups, dilation):
    extents = [d + (k - 1) * (dilation - 1) for d, k in zip(window["extents"], window["kernel"], strict=True)]
    x = R.standard_normal((2, 3, *extents)).astype(np.float32)
    w = R.standard_normal((6, 3 // groups, *window["kernel"])).astype(np.float32)
    b = R.standard_normal(6).astype(np.float32)
    want = onnx_run(
        "Conv",
        [x, w, b],
        strides=window["strides"],
        pads=flat(window["pads"]),
        group=groups,
        dilations=[dilation] * len(extents),
    )
    compare(lambda t: ops.conv_any(t, w, b, window["strides"], window["pads"], dilation, groups), x, want, 1e-4)


@settings(max_examples=80, deadline=None)
@given(windows(), st.sampled_from([1, 3]), st.integers(0, 1))
def test_transposed_convolutions(window, groups, extra):
    x = R.standard_normal((2, 3, *window["extents"])).astype(np.float32)
    w = R.standard_normal((3, 2, *window["kernel"])).astype(np.float32)
    b = R.standard_normal(2 * groups).astype(np.float32)
    padding = [min(extra, s - 1) for s in window["strides"]]
    want = onnx_run(
        "ConvTranspose",
        [x, w, b],
        strides=window["strides"],
        pads=flat(window["pads"]),
        group=groups,
        output_padding=padding,
    )
    compare(
        lambda t: ops.conv_transpose_any(t, w, b, window["strides"], window["pads"], 1, groups, padding), x, want, 1e-4
    )


def test_what_has_no_form_is_refused():
    cube = input("x0", (1, 2, 4, 4, 4))
    with pytest.raises(Refused, match="rank 5"):
        ops.conv_any(cube, np.ones((2, 2, 3, 3, 3)))
    with pytest.raises(Refused, match="rank 5"):
        ops.pool_any(cube, "max", 2)
    image, weight = input("x0", (2, 3, 8, 8)), input("x1", (4, 3, 3, 3))
    with pytest.raises(Refused, match="batch of 1"):
        ops.conv_any(image, weight)
    with pytest.raises(Refused, match="dilated"):
        ops.pool_any(image, "max", 2, dilations=2)


def test_pools_in_the_engines_form():
    """Symmetric pads only, never MIL's own ceil mode, no pad that could win a maximum."""
    x = input("x0", (1, 2, 10, 9))
    for pads in ([(0, 1), (1, 0)], [(1, 1), (1, 1)]):
        for ceil in (False, True):
            for op in program(ops.pool_any(x, "max", 3, 2, pads, ceil)).ops:
                if op.kind == "max_pool":
                    t, b, left, r = op.params["pad"]
                    assert (t, left) == (b, r)
                    assert not op.params["ceil_mode"]
                if op.kind == "pad":
                    assert op.params["constant_val"] == -65504.0
