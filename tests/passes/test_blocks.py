"""Blocks of networks by name: found whole in what the elementary rules leave, and not in what only looks like one."""

from __future__ import annotations

import numpy as np
import pytest
from ops.evaluate import run
from programs import R, built, feeds, marked, same

from aneforge import ops, passes
from aneforge.ir import Notes, Program

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
COMPOSITE = {
    "resnet-basic-block", "mobilenetv4-uib", "mobilenetv4-uib-skip", "convnextv2-grn", "convnextv2-block",
}  # fmt: skip


def weight(*shape):
    return R.standard_normal(shape) * 0.5


def conv_bn(x, n, kernel, stride=1, groups=1):
    y = ops.conv(x, weight(n, x.shape[1] // groups, kernel, kernel), strides=stride, pad=kernel // 2, groups=groups)
    return ops.batch_norm_any(y, np.abs(weight(n)) + 0.5, weight(n), weight(n), np.abs(weight(n)) + 0.1)


def basic(x, project=False, stride=1, start=None, act=ops.relu):
    y = conv_bn(act(conv_bn(x, 8, 3, stride)), 8, 3)
    skip = conv_bn(x, 8, 1, stride) if project else x if start is None else start
    return ops.relu(ops.add(y, skip))


def uib(x, first=0, middle=0, stride=1, skip=False, act=ops.relu, inner=24):
    n = x.shape[1]
    y = conv_bn(x, n, first, 1, n) if first else x
    y = act(conv_bn(y, inner, 1))
    y = act(conv_bn(y, inner, middle, stride, inner)) if middle else y
    y = conv_bn(y, n, 1)
    return ops.add(y, x) if skip else y


def norm_of(x, axes, kind):
    if kind == "op":
        return ops.reduce_l2_norm(x, axes, True)
    if kind == "written":
        return ops.sqrt(ops.reduce_sum(ops.mul(x, x), axes, True))
    return ops.reduce_l2(x, axes, True)


def grn(x, last=False, kind="safe", beta=True):
    n, axes, channel = x.shape[-1 if last else 1], (1, 2) if last else (2, 3), -1 if last else 1
    shape = (n,) if last else (n, 1, 1)
    g = norm_of(x, axes, kind)
    y = ops.mul(ops.mul(x, ops.real_div(g, ops.add(ops.reduce_mean_wide(g, channel), 1e-6))), weight(*shape))
    return ops.add(x, ops.add(y, weight(*shape)) if beta else y)


def convnext(x, linear=False, normalize=grn, kind="safe", act=ops.gelu):
    n = x.shape[1]
    y = ops.conv_bias(x, weight(n, 1, 7, 7), weight(n), pad=3, groups=n)
    y = ops.layer_norm_fp16(ops.transpose(y, NHWC), -1, weight(n), weight(n))
    if linear:
        y = act(ops.add(ops.matmul_any(y, weight(n, 4 * n)), weight(4 * n)))
        y = ops.add(ops.matmul_any(normalize(y, True, kind), weight(4 * n, n)), weight(n))
        y = ops.transpose(y, NCHW)
    else:
        y = act(ops.conv_bias(ops.transpose(y, NCHW), weight(4 * n, n, 1, 1), weight(4 * n)))
        y = ops.conv_bias(normalize(y, False, kind), weight(n, 4 * n, 1, 1), weight(n))
    return ops.add(y, x)


def optimized(given: Program, opt: str = "routes"):
    notes = Notes()
    after, fired = passes.optimize(given, opt, notes)
    return after, [r.name for r, _ in fired], [r.name for r, _ in notes.blocks], notes


BLOCKS = {
    "resnet-basic-block": (lambda x: basic(x), (1, 8, 6, 6)),
    "resnet-basic-block, projected": (lambda x: basic(x, True, 2), (1, 4, 8, 8)),
    "mobilenetv4-uib": (lambda x: uib(x, 3, 5, 2), (1, 8, 8, 8)),
    "mobilenetv4-uib, no start": (lambda x: uib(x, 0, 3, 2), (1, 8, 8, 8)),
    "mobilenetv4-uib-skip": (lambda x: uib(x, 3, 3, skip=True), (1, 8, 6, 6)),
    "mobilenetv4-uib-skip, no middle": (lambda x: uib(x, 3, skip=True), (1, 8, 6, 6)),
    "convnextv2-block": (lambda x: convnext(x), (1, 8, 8, 8)),
    "convnextv2-block, linear layers": (lambda x: convnext(x, True), (2, 8, 8, 8)),
    "convnextv2-block, norm as op": (lambda x: convnext(x, kind="op"), (1, 8, 8, 8)),
    "convnextv2-block, norm written out": (lambda x: convnext(x, kind="written"), (1, 8, 8, 8)),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_block(case):
    name = case.partition(",")[0]
    build, shape = BLOCKS[case]
    before = built(build, shape)
    after, fired, found, notes = optimized(before)
    assert found == [name]
    assert notes.blocks[0][1] == {"node"}
    assert marked(after)
    same(before, after, feeds(before), 2e-3)
    kinds = [op.kind for op in after.ops]
    assert "transpose" not in kinds
    assert "batch_norm" not in kinds
    assert ("convnextv2-grn" in fired) == name.startswith("convnext")
    for opt in ("-composite", "0", f"-{name}"):
        _, fired, found, _ = optimized(before, opt)
        assert name not in found
        assert opt == f"-{name}" or not COMPOSITE & {*fired, *found}


def test_two_blocks_are_two():
    before = built(lambda x: basic(basic(basic(x, True)), False), (1, 4, 6, 6))
    assert optimized(before)[2] == ["resnet-basic-block"] * 3


def test_a_projected_skip_has_one_bias():
    after, fired, _, _ = optimized(built(lambda x: basic(x, True, 2), (1, 4, 8, 8)))
    assert "bias-of-sum" in fired
    assert [op.kind for op in after.ops].count("add") == 3  # a bias inside, one for both, the sum


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("beta", [False, True])
def test_global_response_normalization(last, beta):
    before = built(lambda x: grn(x, last, "safe", beta), (2, 6, 8, 8))
    after, fired, _, _ = optimized(before)
    assert "convnextv2-grn" in fired
    images = [op for op in after.ops if op.kind in ("mul", "add") and op.types[0].shape == (2, 6, 8, 8)]
    old = [op for op in before.ops if op.kind in ("mul", "add") and op.types[0].shape == (2, 6, 8, 8)]
    assert len(images) == len(old) - 2
    same(before, after, feeds(before), 1e-3)
    feed = feeds(before)
    np.testing.assert_allclose(run(after, feed, "fp16")["y0"], run(before, feed, "fp32")["y0"], atol=3e-2)


# what only looks like a block: (program, rule, what it says, or "" if it says nothing)
NEAR = {
    "another skip": (
        lambda x: basic(x, start=ops.exp(x)), (1, 8, 6, 6),
        "resnet-basic-block", "the skip does not start where the block does",
    ),
    "sigmoid inside": (lambda x: basic(x, act=ops.sigmoid), (1, 8, 6, 6), "resnet-basic-block", ""),
    "no depthwise": (lambda x: uib(x), (1, 8, 6, 6), "mobilenetv4-uib", "there is no depthwise convolution in it"),
    "no expansion": (
        lambda x: uib(x, 3, 3, inner=8), (1, 8, 6, 6),
        "mobilenetv4-uib", "the inner channels are not more than the outer ones",
    ),
    "relu6": (lambda x: uib(x, 0, 3, act=ops.relu6), (1, 8, 6, 6), "mobilenetv4-uib", ""),
    "added to something else": (
        lambda x: ops.add(uib(x, 3, 3), ops.exp(x)), (1, 8, 6, 6),
        "mobilenetv4-uib-skip", "what is added is not the block's input",
    ),
    "version 1": (
        lambda x: convnext(x, normalize=lambda y, *_: y), (1, 8, 8, 8),
        "convnextv2-block", "between its products it lacks a global response normalization",
    ),
    "relu": (
        lambda x: convnext(x, act=ops.relu), (1, 8, 8, 8),
        "convnextv2-block", "between its products it lacks a GELU",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NEAR)
def test_near_miss(case):
    build, shape, name, condition = NEAR[case]
    before = built(build, shape)
    after, _, found, notes = optimized(before)
    assert name not in found
    assert [n.condition for n in notes.near if n.rule.name == name] == ([condition] if condition else [])
    same(before, after, feeds(before), 2e-3)


@pytest.mark.parametrize(
    "build",
    [
        lambda x, y: ops.add(x, ops.mul(ops.mul(x, ops.real_div(g := ops.reduce_l2(y, (2, 3), True), ops.add(ops.reduce_mean(g, 1, True), 1e-6))), weight(6, 1, 1))),
        lambda x, y: ops.add(x, ops.mul(ops.mul(x, ops.real_div(g := ops.reduce_l2(x, (2, 3), True), ops.add(ops.reduce_max(g, 1, True), 1e-6))), weight(6, 1, 1))),
        lambda x, y: ops.add(y, ops.mul(ops.mul(x, ops.real_div(g := ops.reduce_l2(x, (2, 3), True), ops.add(ops.reduce_mean(g, 1, True), 1e-6))), weight(6, 1, 1))),
        lambda x, y: ops.add(x, ops.mul(ops.mul(x, ops.real_div(g := ops.reduce_l2(x, (2, 3), True), ops.add(ops.reduce_mean(g, 1, True), 1e-6))), weight(8))),
    ],
    ids=["the response of another value", "a maximum for the mean", "added to another value", "a gain along the width"],
)  # fmt: skip
def test_no_global_response_normalization(build):
    before = built(build, (2, 6, 8, 8), (2, 6, 8, 8))
    after, fired, _, _ = optimized(before)
    assert "convnextv2-grn" not in fired
    same(before, after, feeds(before), 1e-3)
