"""A program for each rewrite: what it is built of, shapes of its inputs, and the operations that are left."""

from __future__ import annotations

import math

import numpy as np
from programs import R

from aneforge import ops
from aneforge.ir import const


def weight(*shape):
    return R.standard_normal(shape)


def batch_norm(x, channels):
    return ops.batch_norm_any(x, weight(channels), weight(channels), weight(channels), np.abs(weight(channels)) + 0.1)


def layer_norm_in_pieces(x, epsilon=1e-12):
    centred = ops.sub(x, ops.reduce_mean_wide(x, -1))
    variance = ops.reduce_mean_wide(ops.pow(centred, 2.0), -1)
    return ops.mul(ops.real_div(centred, ops.sqrt(ops.add(variance, epsilon))), weight(64))


NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def by_moments(x, gain, offset):
    """As TensorFlow's tf.nn.batch_normalization of tf.nn.moments."""
    mean = ops.reduce_mean_wide(x, -1)
    off = ops.sub(x, mean)
    inverse = ops.rsqrt(ops.add(ops.reduce_mean_wide(ops.mul(off, off), -1), 1e-3))
    inverse = inverse if gain is None else ops.mul(inverse, gain)
    rest = ops.mul(mean, inverse)
    return (
        ops.sub(ops.mul(x, inverse), rest)
        if offset is None
        else ops.add(ops.mul(x, inverse), ops.sub(const(offset), rest))
    )


def interleaved_norm(x):
    """The mean of neighbours, reshaped so that it looks like a mean along the first axis."""
    neighbours = ops.matmul(ops.reshape(ops.mul(x, x), (32, 3)), np.full((1, 3), 1 / 3), transpose_y=True)
    return ops.real_div(x, ops.sqrt(ops.add(ops.reshape(neighbours, (1, 32)), 1e-5)))


ROOT, K = 1 / math.sqrt(2), math.sqrt(2 / math.pi)
CASES = {
    "scale-of-sum": (
        lambda x: ops.mul(ops.reduce_sum_wide(x, 1, False), 1 / 512),
        [(2, 512)],
        ["matmul", "reshape"],
    ),
    "scale-of-sum (division, several axes)": (
        lambda x: ops.real_div(ops.reduce_sum_wide(x, (1, 2)), 600.0),
        [(2, 20, 30)],
        None,
    ),
    "scale-of-sum (channels)": (
        lambda x: ops.mul(ops.reduce_sum_wide(ops.mul(x, x), 1), 1 / 64),
        [(2, 64, 3, 3)],
        ["mul", "conv"],
    ),
    "scale-of-sum (a product)": (
        lambda x: ops.mul(ops.reshape(ops.matmul(x, weight(5, 6), transpose_y=True), (15,)), 0.5),
        [(3, 6)],
        ["matmul", "reshape"],
    ),
    # convolutions and matrix products
    "batch-norm": (
        lambda x: ops.batch_norm(x, weight(3), np.abs(weight(3)), weight(3)),
        [(2, 3, 4, 4)],
        ["mul", "add"],
    ),
    "scale-into-weight": (
        lambda x: ops.mul(ops.conv(x, weight(4, 3, 3, 3)), weight(4, 1, 1)),
        [(1, 3, 6, 6)],
        ["conv"],
    ),
    "scale-into-weight (transposed, groups)": (
        lambda x: ops.mul(ops.conv_transpose(x, weight(6, 2, 3, 3), groups=3, strides=2), weight(6, 1, 1)),
        [(1, 6, 4, 4)],
        ["conv_transpose"],
    ),
    "scale-into-weight (matmul)": (
        lambda x: ops.mul(ops.matmul(x, weight(5, 6), transpose_y=True), weight(5)),
        [(3, 6)],
        ["matmul"],
    ),
    "scale-into-weight (number)": (lambda x: ops.mul(0.25, ops.matmul(x, weight(6, 5))), [(3, 6)], ["matmul"]),
    "scale-before-bias": (
        lambda x: batch_norm(ops.conv_bias(x, weight(4, 3, 3, 3), weight(4)), 4),
        [(1, 3, 6, 6)],
        ["conv", "add"],
    ),
    "scale-before-conv": (
        lambda x: ops.conv(ops.mul(x, weight(6, 1, 1)), weight(4, 3, 3, 3), pad=1, groups=2),
        [(1, 6, 6, 6)],
        ["conv"],
    ),
    "shift-before-conv": (
        lambda x: ops.conv(ops.add(x, weight(6, 1, 1)), weight(4, 3, 3, 3), groups=2),
        [(1, 6, 6, 6)],
        ["conv", "add"],
    ),
    "pad-into-conv": (
        lambda x: ops.conv(ops.pad(x, (0, 0, 0, 0, 1, 2, 0, 1)), weight(4, 3, 3, 3), pad=1),
        [(1, 3, 6, 6)],
        ["conv"],
    ),
    "scale-before-matmul": (
        lambda x: ops.matmul(ops.mul(x, weight(6)), weight(6, 5)),
        [(3, 6)],
        ["matmul"],
    ),
    "scale-before-matmul (flattened)": (
        lambda x: ops.matmul(ops.reshape(ops.mul(x, weight(3, 1, 1)), (2, 60)), weight(7, 60), False, True),
        [(2, 3, 4, 5)],
        ["reshape", "matmul"],
    ),
    "shift-before-matmul": (
        lambda x: ops.matmul(ops.add(x, np.linspace(-1, 2, 6)), weight(6, 5) + np.eye(6, 5)),
        [(3, 6)],
        ["matmul", "add"],
    ),
    "bias-of-sum": (
        lambda x, y: ops.relu(
            ops.add(
                ops.conv_bias(x, weight(4, 3, 3, 3), weight(4), pad=1), ops.conv_bias(y, weight(4, 3, 1, 1), weight(4))
            )
        ),
        [(1, 3, 6, 6), (1, 3, 6, 6)],
        ["conv", "add", "conv", "add", "relu"],
    ),
    # functions
    "silu": (lambda x: ops.mul(ops.sigmoid(x), x), [(3, 8)], ["silu"]),
    "gelu": (
        lambda x: ops.mul(ops.mul(x, ops.add(ops.erf(ops.real_div(x, math.sqrt(2))), 1.0)), 0.5),
        [(3, 8)],
        ["gelu"],
    ),
    "gelu (halved first)": (
        lambda x: ops.mul(ops.mul(0.5, x), ops.add(1.0, ops.erf(ops.mul(x, ROOT)))),
        [(3, 8)],
        ["gelu"],
    ),
    "gelu (of a product)": (
        lambda x, y: ops.mul(ops.mul(ops.mul(x, y), 0.5), ops.add(ops.erf(ops.mul(ops.mul(x, y), ROOT)), 1.0)),
        [(3, 8), (3, 8)],
        ["mul", "gelu"],
    ),
    "gelu-tanh": (
        lambda x: ops.mul(
            ops.mul(x, 0.5), ops.add(ops.tanh(ops.mul(ops.add(x, ops.mul(ops.pow(x, 3.0), 0.044715)), K)), 1.0)
        ),
        [(3, 8)],
        None,
    ),
    "gelu-tanh (factored)": (
        lambda x: ops.mul(
            ops.mul(x, 0.5),
            ops.add(1.0, ops.tanh(ops.mul(ops.mul(x, K), ops.add(1.0, ops.mul(ops.mul(x, x), 0.044715))))),
        ),
        [(3, 8)],
        None,
    ),
    "hardswish": (
        lambda x: ops.real_div(ops.mul(x, ops.clip(ops.add(x, 3.0), 0.0, 6.0)), 6.0),
        [(3, 8)],
        ["sigmoid_hard", "mul"],
    ),
    "hardsigmoid (gate first)": (
        lambda x: ops.mul(ops.mul(ops.relu6(ops.add(3.0, x)), 1 / 6), x),
        [(3, 8)],
        ["sigmoid_hard", "mul"],
    ),
    "hardsigmoid (gate divided)": (
        lambda x: ops.mul(x, ops.real_div(ops.relu6(ops.add(x, 3.0)), 6.0)),
        [(3, 8)],
        ["sigmoid_hard", "mul"],
    ),
    "hardsigmoid": (lambda x: ops.mul(ops.relu6(ops.add(x, 3.0)), 1 / 6), [(3, 8)], ["sigmoid_hard"]),
    "hardsigmoid (clip)": (
        lambda x: ops.clip(ops.add(ops.mul(x, 0.2), 0.5), 0.0, 1.0),
        [(3, 8)],
        ["sigmoid_hard"],
    ),
    "mish": (lambda x: ops.mul(x, ops.tanh(ops.softplus_safe(x))), [(3, 8)], None),
    "logsumexp": (lambda x: ops.log(ops.reduce_sum(ops.exp(x), (1,), True), 0.0), [(3, 9)], None),
    "log-softmax": (lambda x: ops.log(ops.softmax(x, 1), 0.0), [(3, 40)], None),
    "unit-variance": (layer_norm_in_pieces, [(2, 5, 64)], None),
    "unit-variance (rms)": (
        lambda x: ops.mul(x, ops.rsqrt(ops.add(ops.reduce_mean_wide(ops.mul(x, x), -1), 1e-6))),
        [(2, 5, 64)],
        None,
    ),
    "unit-variance (inverse root)": (
        lambda x: ops.mul(ops.inverse(ops.sqrt(ops.add(ops.reduce_mean(ops.square(x), -1, True), 1e-6)), 0.0), x),
        [(2, 5, 8)],
        None,
    ),
    "unit-variance (spatial)": (
        lambda x: ops.real_div(x, ops.sqrt(ops.add(1e-5, ops.reduce_mean_wide(ops.mul(x, x), (2, 3))))),
        [(2, 5, 6, 7)],
        None,
    ),
    "moments-norm": (lambda x: by_moments(x, weight(32), weight(32)), [(2, 5, 32)], None),
    "moments-norm (no offset)": (lambda x: by_moments(x, None, None), [(2, 5, 32)], None),
    # layout
    "view-between": (
        lambda x: ops.reshape(ops.exp(ops.mul(ops.reshape(x, (4, 3)), 0.5)), (3, 4)),
        [(3, 4)],
        ["mul", "exp"],
    ),
    "view-between (the biased rows of two products)": (
        lambda x: ops.matmul_any(ops.relu(ops.add(ops.matmul_any(x, weight(8, 16)), weight(16))), weight(16, 5)),
        [(2, 3, 8)],
        ["reshape", "matmul", "add", "relu", "matmul", "reshape"],
    ),
    "flatten-order": (
        lambda x: ops.matmul(ops.reshape(ops.transpose(x, (0, 2, 3, 1)), (2, 60)), weight(60, 7)),
        [(2, 3, 4, 5)],
        ["reshape", "matmul"],
    ),
    "flatten-order (rows)": (
        lambda x: ops.matmul(ops.reshape(ops.transpose(x, (0, 3, 1, 2)), (2, 60)), weight(7, 60), False, True),
        [(2, 3, 4, 5)],
        ["reshape", "matmul"],
    ),
    "transpose-sink": (
        lambda x: ops.transpose(ops.relu(ops.add(ops.transpose(x, NHWC), weight(3))), NCHW),
        [(2, 3, 4, 5)],
        ["add", "relu"],
    ),
    "transpose-sink (a residual)": (
        lambda x, y: ops.transpose(
            ops.relu(ops.add(a := ops.sigmoid(ops.transpose(x, NHWC)), ops.mul(ops.transpose(y, NHWC), a))), NCHW
        ),
        [(2, 3, 4, 5), (2, 3, 4, 5)],
        ["sigmoid", "mul", "add", "relu"],
    ),
    "transpose-sink-concat": (
        lambda x, y: ops.transpose(ops.concat((ops.transpose(x, NHWC), ops.transpose(y, NHWC)), 3), NCHW),
        [(2, 3, 4, 5), (2, 2, 4, 5)],
        ["concat"],
    ),
    "transpose-sink-axes": (
        lambda x: ops.reduce_max(ops.transpose(x, NHWC), (1, 2)),
        [(2, 3, 4, 5)],
        ["reduce_max"],
    ),
    "transpose-sink-axes (softmax, slice, pad, reverse)": (
        lambda x: ops.transpose(
            ops.softmax(
                ops.reverse(
                    ops.pad(
                        ops.slice_by_size(ops.transpose(x, NHWC), (0, 1, 0, 1), (2, 2, 5, 2)), (0, 0, 1, 0, 2, 3, 0, 0)
                    ),
                    (1,),
                ),
                3,
            ),
            NCHW,
        ),
        [(2, 3, 4, 5)],
        ["slice_by_size", "pad", "reverse", "softmax"],
    ),
    "transpose-sink-sum": (
        lambda x: ops.reduce_mean_wide(ops.transpose(x, NHWC), (1, 2), False),
        [(2, 3, 4, 5)],
        ["reshape", "matmul", "reshape"],
    ),
    "transpose-sink-sum (channels)": (
        lambda x: ops.transpose(ops.sub(y := ops.transpose(x, NHWC), ops.reduce_sum_wide(y, -1)), NCHW),
        [(2, 20, 4, 5)],
        None,
    ),
    "linear-to-conv": (
        lambda x: ops.transpose(ops.add(ops.matmul_any(ops.transpose(x, NHWC), weight(3, 6)), weight(6)), NCHW),
        [(2, 3, 4, 5)],
        ["conv", "add"],
    ),
    "linear-to-conv (a bias before the shape)": (
        lambda x: ops.transpose(
            ops.reshape(
                ops.add(ops.matmul(ops.reshape(ops.transpose(x, (0, 2, 1)), (10, 3)), weight(3, 6)), weight(6)),
                (2, 5, 6),
            ),
            (0, 2, 1),
        ),
        [(2, 3, 5)],
        ["reshape", "conv", "add", "reshape"],
    ),
    "view-noop": (lambda x: ops.relu(ops.reshape(x, (3, 4))), [(3, 4)], ["relu"]),
    "view-chain": (lambda x: ops.expand_dims(ops.reshape(ops.squeeze(x, 0), (4, 3)), 0), [(1, 3, 4)], ["reshape"]),
    "transpose-noop": (lambda x: ops.transpose(x, (1, 0, 3, 2)), [(1, 3, 1, 4)], ["reshape"]),
    "transpose-chain": (lambda x: ops.transpose(ops.transpose(x, (1, 2, 0)), (1, 0, 2)), [(2, 3, 4)], ["transpose"]),
    "transpose-reshape": (
        lambda x: ops.transpose(x, (0, 2, 3, 4, 1)),
        [(2, 3, 4, 5, 6)],
        ["reshape", "transpose", "reshape"],
    ),
    "slice-noop": (lambda x: ops.relu(ops.slice_by_size(x, (0, 0), (3, 4))), [(3, 4)], ["relu"]),
    "slice-chain": (
        lambda x: ops.slice_by_size(ops.slice_by_size(x, (1, 1), (3, 4)), (1, 1), (2, 2)),
        [(5, 6)],
        ["slice_by_size"],
    ),
    "single": (lambda x: ops.relu(ops.concat((ops.tile(x, (1, 1)),), 0)), [(3, 4)], ["relu"]),
    "concat-chain": (
        lambda x, y: ops.concat((ops.concat((x, y), 0), ops.relu(x)), 0),
        [(3, 4), (2, 4)],
        ["relu", "concat"],
    ),
    "split-concat": (lambda x: ops.relu(ops.concat(ops.split(x, num_splits=2, axis=1), 1)), [(3, 4)], ["relu"]),
    # constants
    "neutral": (lambda x: ops.relu(ops.add(ops.real_div(ops.mul(1.0, x), 1.0), 0.0)), [(3, 4)], ["relu"]),
    "scalar-constant": (lambda x: ops.maximum(x, np.full((3, 4), 0.5)), [(3, 4)], ["maximum"]),
    "constant-chain": (lambda x: ops.sub(ops.add(ops.add(x, weight(4)), 2.0), weight(3, 1)), [(3, 4)], None),
    "constant-chain (products)": (lambda x: ops.mul(ops.mul(x, 3.0), 0.5), [(3, 4)], ["mul"]),
    "divide-by-power": (lambda x: ops.real_div(x, 8.0), [(3, 4)], ["mul"]),
    "constant-layout": (lambda x: ops.add(x, ops.transpose(const(weight(4, 3)), (1, 0))), [(3, 4)], ["add"]),
}
