"""Packed weights: what they decode to, which encoding is chosen, and that nothing else of a program changes."""

from __future__ import annotations

import numpy as np
import pytest
from ops.evaluate import run
from programs import M1, M4, TARGETS, built, feeds, kinds, marked

from aneforge import ops, passes
from aneforge.ir import Program, Tensor, const, input, verify
from aneforge.passes import encodings

R = np.random.default_rng(5)
M2 = TARGETS[1]
ROUGH = 0.2  # lets a palette of normal weights pass


def weights(*shape: int, zeros: float = 0.0) -> np.ndarray:
    return (R.standard_normal(shape) * (R.random(shape) >= zeros)).astype(np.float32)


def dense(w: np.ndarray, bounded: bool = True):
    """x @ w, with x in [0, 1] or unknown."""
    return lambda x: ops.matmul(ops.sigmoid(x) if bounded else x, w)


def chosen(given: Program, target, how: str, tolerance: float = ROUGH, block: int = 32):
    return passes.compress(given, target, how, tolerance, block)


# ---------------------------------------------------------------- encodings, against numpy written plainly


def test_int8_row_by_row() -> None:
    w = weights(5, 3, 4, 2).astype(np.float16)
    w[3] = 0
    w[4] *= np.float16(1e-6)  # a scale below fp16's least number
    got = encodings.int8(w)
    for row, decoded in zip(w, got.decoded, strict=True):
        scale = max(np.float16(np.float32(np.abs(row).max()) / 127), np.float16(6e-8))
        codes = np.clip(np.round(row.astype(np.float64) / float(scale)), -127, 127)
        assert np.array_equal(decoded, (codes * float(scale)).astype(np.float16))
    op = got.tensor().op
    assert op.operand("quantized_data").value.min() >= -127
    assert got.bytes == 5 * 24 + 2 * 5


def test_blocks_have_a_scale_each() -> None:
    w = weights(4, 12).astype(np.float16)
    w[0, :4] *= np.float16(100)
    got = encodings.blockwise(w, 4)
    for i in range(4):
        for b in range(0, 12, 4):
            part = w[i, b : b + 4].astype(np.float64)
            scale = float(np.float16(np.float32(np.abs(part).max()) / 127))
            want = (np.clip(np.round(part / scale), -127, 127) * scale).astype(np.float16)
            assert np.array_equal(got.decoded[i, b : b + 4], want)
    assert encodings.error(got.decoded, w) < encodings.error(encodings.int8(w).decoded, w)


def test_a_palette_takes_the_nearest_entry() -> None:
    w = weights(64, 64).astype(np.float16)
    got = encodings.int4(w)
    op = got.tensor().op
    table, indices = op.operand("lut").value.reshape(-1), op.operand("indices").value
    assert np.array_equal(table[indices], got.decoded)
    distance = np.abs(w.astype(np.float64)[..., None] - table.astype(np.float64))
    assert np.array_equal(np.abs(w.astype(np.float64) - got.decoded), distance.min(-1))
    even = np.linspace(w.min(), w.max(), 16).astype(np.float64)
    uniform = even[np.abs(w.astype(np.float64)[..., None] - even).argmin(-1)]
    assert encodings.error(got.decoded, w) < 0.8 * encodings.error(uniform.astype(np.float16), w)
    assert encodings.error(got.decoded, w) == pytest.approx(0.0975, abs=0.004)  # Lloyd-Max: 16 levels of a normal


@pytest.mark.parametrize("distinct", [1, 2, 15, 16])
def test_few_values_are_exact(distinct: int) -> None:
    w = R.standard_normal(distinct).astype(np.float16)[R.integers(0, distinct, (32, 8))]
    assert np.array_equal(encodings.int4(w).decoded, w)


def test_sparse_is_exact() -> None:
    w = weights(16, 9, zeros=0.6).astype(np.float16)
    got = encodings.sparse(w)
    assert np.array_equal(got.decoded, w)
    op = got.tensor().op
    assert op.operand("nonzero_data").value.tolist() == [v for v in w.reshape(-1).tolist() if v]
    assert np.array_equal(op.operand("mask").value, w != 0)


# ---------------------------------------------------------------- choice


@pytest.mark.parametrize(
    ("target", "how", "zeros", "tolerance", "bounded", "encoding"),
    [
        (M1, "int8", 0, 0.05, True, "int8"),
        (M4, "int8", 0, 0.05, False, "int8"),
        (M4, "int8", 0, 0.001, True, "fp16"),
        (M4, "int4", 0, ROUGH, True, "int4"),
        (M4, "int4", 0, 0.05, True, "int8"),
        (M4, "int4", 0, 0.05, False, "fp16"),  # no bound of the activations: Q10
        (M1, "int4", 0, 0.05, True, "fp16"),  # M1 unpacks int8
        (M4, "sparse", 0.6, 0, True, "sparse"),
        (M4, "sparse", 0.4, 0.05, True, "fp16"),
        (M1, "blockwise", 0, 0.05, True, "blockwise"),
        (M4, "blockwise", 0, 0.001, True, "fp16"),
        (M4, "auto", 0, ROUGH, True, "int4"),
        (M4, "auto", 0.95, ROUGH, True, "sparse"),
        (M4, "auto", 0.9, 0.0, True, "sparse"),
        (M4, "auto", 0, 0.05, True, "int8"),
        (M2, "auto", 0, 0.05, True, "int8"),
        (M1, "auto", 0, 0.05, True, "fp16"),
        (M4, "auto", 0, 0.05, False, "fp16"),
        (M4, "auto", 0.7, 0.05, False, "sparse"),
        (M1, "auto", 0.7, 0.05, True, "sparse"),
        (M4, "auto", 0, 0.0, True, "fp16"),
    ],
)
def test_choice(target, how, zeros, tolerance, bounded, encoding) -> None:
    given = built(dense(weights(64, 96, zeros=zeros), bounded), (3, 64))
    after, rows, _ = chosen(given, target, how, tolerance)
    assert [row.encoding for row in rows] == [encoding]
    (row,) = rows
    assert row.error <= tolerance
    if encoding == "fp16":
        assert after is given
        assert row.note.startswith("int" if how == "auto" else how)
        assert row.bytes_after == row.bytes_before == 2 * 64 * 96
    else:
        assert row.bytes_after < row.bytes_before
        assert passes.stored_bytes(given) - passes.stored_bytes(after) >= row.bytes_before - row.bytes_after - 2
        assert bool(row.note) == (encoding not in target.streams)
    assert not passes.violations(after, target)


def test_what_each_family_streams() -> None:
    """From the table of ane-guide ch. 25; blockwise counts as unpacked everywhere (two sources differ)."""
    assert [set(t.streams) for t in TARGETS] == [{"int4", "sparse"}, *[{"int4", "sparse", "int8"}] * 3]


def test_a_known_bound_refuses_int8() -> None:
    """Values that may reach 6000 become infinite in a product with int8 weights (Q10); half of it does not."""
    w = weights(64, 96)
    for factor, encoding in ((6000.0, "fp16"), (3000.0, "int8")):
        given = built(lambda x, k=factor: ops.matmul(ops.mul(ops.sigmoid(x), k), w * 1e-3), (3, 64))
        _, (row,), risks = chosen(given, M4, "int8")
        assert row.encoding == encoding
        assert ("Q10" in row.note) == (encoding == "fp16")
        assert not risks


def test_convolutions_count_as_products() -> None:
    """Nobody measured int8 weights of convolutions: a bound is asked for as well, and one warning stands for all."""
    w = weights(16, 16, 3, 3)
    given = built(lambda x: ops.conv(ops.relu(ops.conv(x, w)), w), (1, 16, 8, 8))
    _, rows, (risk,) = chosen(given, M4, "int8")
    assert [row.encoding for row in rows] == ["int8", "int8"]
    assert "in 1 more" in risk.text
    given = built(lambda x: ops.conv(ops.mul(ops.sigmoid(x), 6000.0), w * 1e-3), (1, 16, 8, 8))
    assert chosen(given, M4, "int8")[1][0].encoding == "fp16"


def test_an_unknown_bound_warns() -> None:
    w = weights(64, 96)
    _, _, (risk,) = chosen(built(dense(w, bounded=False), (3, 64)), M4, "int8")
    assert "4094" in risk.text
    assert risk.origins == {"node"}
    assert not chosen(built(dense(w), (3, 64)), M4, "int8")[2]


def test_a_proof_of_the_sums_is_not_lost() -> None:
    """Sums that stay just below 32752 would pass it with codes that round up; with a little more room they may not."""
    w = np.full((64, 96), 2.507, np.float32)  # 79.6 steps of 4 / 127: the code is 80
    w[0] = 4.0
    low = np.abs(w).sum(0).max()
    for share, encoding in ((0.999, "fp16"), (0.9, "int8")):
        top = share * 32752 / low / (1 + 2.0**-8)
        x = ops.mul(ops.sigmoid(input("x0", (3, 64))), float(top))
        given = Program([("x0", x.op.sources[0].op.sources[0])], [("y", ops.matmul(x, w))])
        (row,) = chosen(given, M4, "int8")[1]
        assert row.encoding == encoding, row
        assert ("proof" in row.note) == (encoding == "fp16")


def test_odd_rows_have_no_palette() -> None:
    _, (row,), _ = chosen(built(dense(weights(65, 96)), (3, 65)), M1, "int4", 0.5)
    assert row.encoding == "fp16"
    assert "row of 65" in row.note


def test_blocks_that_do_not_divide() -> None:
    given = built(dense(weights(48, 96)), (3, 48))
    assert chosen(given, M4, "blockwise")[1][0].encoding == "fp16"
    assert chosen(given, M4, "blockwise", block=16)[1][0].encoding == "blockwise"


@pytest.mark.parametrize(
    "build",
    [
        lambda x: ops.conv_transpose(ops.reshape(x, (1, 32, 2, 2)), weights(32, 16, 2, 2)),
        lambda x: ops.matmul(x, weights(128, 4)),  # small
        lambda x: ops.mul(ops.concat((x,) * 8, 1), weights(1, 1024)),  # no product
        lambda x: ops.matmul(ops.reshape(x, (2, 1, 64)), weights(2, 64, 32)),  # a batch of weights
        lambda x: ops.matmul(const(weights(64, 128)), ops.reshape(x, (128, 1))),
    ],
)
def test_what_stays(build) -> None:
    given = built(build, (1, 128))
    for how in ("int8", "int4", "sparse", "blockwise", "auto"):
        assert chosen(given, M4, how, 0.9)[:2] == (given, ())


def test_infinite_weights_stay() -> None:
    w = weights(64, 96)
    w[0, 0] = np.inf
    assert chosen(built(dense(w, bounded=False), (3, 64)), M4, "int8")[1] == ()


# ---------------------------------------------------------------- programs

LAYERS = {
    "conv": (
        lambda x, z: ops.conv(x, weights(32, 8, 3, 3, zeros=z), pad=(1, 1, 1, 1), bias=weights(32)),
        (1, 8, 6, 6),
    ),
    "grouped": (lambda x, z: ops.conv(x, weights(64, 4, 3, 3, zeros=z), groups=2), (1, 8, 6, 6)),
    "matmul": (lambda x, z: ops.matmul(x, weights(64, 32, zeros=z)), (2, 3, 64)),
    "turned": (lambda x, z: ops.matmul(x, weights(32, 64, zeros=z), True, True), (64, 3)),
    "linear": (lambda x, z: ops.linear(x, weights(32, 64, zeros=z), weights(32)), (2, 3, 64)),
    "chain": (
        lambda x, z: ops.matmul(
            ops.relu(ops.matmul(ops.sigmoid(x), weights(64, 64, zeros=z))), weights(64, 32, zeros=z)
        ),
        (3, 64),
    ),
}


@pytest.mark.parametrize("how", ["int8", "int4", "sparse", "blockwise", "auto"])
@pytest.mark.parametrize("layer", LAYERS)
def test_same_results_as_the_decoded_weights(layer: str, how: str) -> None:
    """The evaluator on the packed program and on one whose constants are what a plain reading of the packed ones is."""
    build, shape = LAYERS[layer]
    given = built(lambda x: build(x, 0.7 if how == "sparse" else 0.0), shape)
    after, rows, _ = chosen(given, M4, how, ROUGH)
    packed = [k for k in kinds(after) if k.startswith("constexpr_")]
    assert len(rows) == (2 if layer == "chain" else 1)
    assert len(packed) == (0 if how == "blockwise" and layer in ("conv", "grouped") else len(rows))
    assert verify(after) is None
    assert marked(after)
    feed = feeds(given)
    got, want = run(after, feed), run(_decoded(after), feed)
    assert all(np.array_equal(got[name], want[name]) for name in want)
    before = run(given, feed, "fp32")
    for name, value in run(after, feed, "fp32").items():
        assert np.linalg.norm(value - before[name]) <= 2 * ROUGH * np.linalg.norm(before[name])


def _decoded(given: Program) -> Program:
    """Every packed weight replaced by a constant, decoded element by element."""
    moved: dict[Tensor, Tensor] = {}
    for op in given.ops:
        out = op.outputs[0]
        if op.kind == "constexpr_affine_dequantize":
            q, s = op.operand("quantized_data").value, op.operand("scale").value
            rows = [row.astype(np.float64) * float(scale) for row, scale in zip(q, s, strict=True)]
            moved[out] = const(np.stack(rows).astype(np.float16))
        elif op.kind == "constexpr_lut_to_dense":
            table = op.operand("lut").value.reshape(-1).tolist()
            indices = op.operand("indices").value
            moved[out] = const(np.array([table[i] for i in indices.reshape(-1)], np.float16).reshape(indices.shape))
        elif op.kind == "constexpr_sparse_to_dense":
            mask, values = op.operand("mask").value, iter(op.operand("nonzero_data").value.tolist())
            flat = [next(values) if bit else 0.0 for bit in mask.reshape(-1)]
            moved[out] = const(np.array(flat, np.float16).reshape(mask.shape))
        elif op.kind == "constexpr_blockwise_shift_scale":
            q, s = op.operand("data").value.astype(np.float64), op.operand("scale").value.astype(np.float64)
            moved[out] = const((q * np.kron(s, np.ones((1, q.shape[1] // s.shape[1])))).astype(np.float16))
        elif any(source in moved for source in op.sources):
            moved[out] = op.with_sources([moved.get(source, source) for source in op.sources]).outputs[0]
    return Program(given.inputs, [(name, moved.get(tensor, tensor)) for name, tensor in given.outputs])
