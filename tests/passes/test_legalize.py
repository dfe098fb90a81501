"""Legalization: every form that an engine does not take, or gets wrong, and what is sent instead; limits; ports."""

from __future__ import annotations

import numpy as np
import pytest
from any_program import programs
from hypothesis import given, settings
from hypothesis import strategies as st
from ops.evaluate import run
from programs import M1, M4, TARGETS, R, built, feeds, kinds, legal, same

from aneforge import ops, passes
from aneforge.ir import Program, const, input, origin
from aneforge.passes.legalize import _rules
from aneforge.targets import quirk_table


def weight(*shape):
    return R.standard_normal(shape)


def check(build, *shapes, tolerance=2e-4, targets=TARGETS, values=None):
    """Legal on every target, the same results, and accepted by check_node. Returns the legal programs."""
    before = built(build, *shapes)
    feed = feeds(before, values)
    out = []
    for target in targets:
        after = legal(before, target)
        same(before, after, feed, tolerance)
        assert passes.check_node([t for _, t in before.outputs], [t for _, t in before.inputs], target) is None
        out.append(after)
    return out


def never(programs, *names):
    assert not any(name in kinds(p) for p in programs for name in names)


# ---------------------------------------------------------------- forms that are never sent


def test_square():
    never(check(ops.square, (3, 4)), "square")


def test_softplus():
    never(check(ops.softplus, (3, 4)), "softplus")


def test_round():
    values = lambda s: R.integers(-9, 9, s) / 2  # noqa: E731
    never(check(ops.round, (3, 4), values=values), "round")


def test_log_sum_exp():
    never(check(lambda x: ops.reduce_log_sum_exp(x, 1, True), (3, 40)), "reduce_log_sum_exp")


@pytest.mark.parametrize("kind", ["reduce_sum", "reduce_mean", "reduce_l1_norm", "reduce_sum_square", "reduce_l2_norm"])
@pytest.mark.parametrize("keep", [True, False])
def test_long_sums(kind, keep):
    never(check(lambda x: getattr(ops, kind)(x, (1, 2), keep), (3, 8, 9)), kind)


def test_log_sum():
    never(check(lambda x: ops.reduce_log_sum(ops.abs(x), 1, True), (3, 40)), "reduce_log_sum")


def test_thresholded_relu():
    values = lambda s: R.integers(-2, 3, s)  # noqa: E731
    never(check(lambda x: ops.thresholded_relu(x, 1.0), (3, 40), values=values), "thresholded_relu")


@pytest.mark.parametrize(
    "build",
    [
        lambda x: ops.layer_norm(x, (2, 3), weight(6, 7), weight(6, 7)),
        lambda x: ops.layer_norm(x, (1,), weight(5), None),
        lambda x: ops.instance_norm(x, weight(5), weight(5)),
        lambda x: ops.l2_norm(x, 1e-3),
    ],
)
def test_norms(build):
    never(check(build, (2, 5, 6, 7), tolerance=1e-3), "layer_norm", "instance_norm", "l2_norm")


def test_gelu_modes():
    for mode in ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"):
        for after in check(lambda x, m=mode: ops.gelu(x, m), (3, 8)):
            assert all(op.params["mode"] == "EXACT" for op in after.ops if op.kind == "gelu")


def test_attention():
    shapes = [(1, 2, 5, 4)] * 3
    never(check(ops.scaled_dot_product_attention, *shapes), "scaled_dot_product_attention")
    mask = np.where(R.random((5, 5)) > 0.3, 0.0, -3.4e38)
    mask[:, 0] = 0
    check(lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, const(mask)), *shapes)


def test_scalar_factors_after_a_rounding():
    """Q15: the engine returns floor(x) for floor(x) * k with a k of one element."""
    for build in (
        lambda x: ops.mul(ops.floor(x), 3.0),
        lambda x: ops.mul(np.array([[2.5]]), ops.ceil(x)),
        lambda x: ops.real_div(ops.floor(x), 3.0),
    ):
        for after in check(build, (3, 4)):
            for op in after.ops:
                rounded = [s for s in op.sources if s.op.kind in ("floor", "ceil", "round")]
                if op.kind in ("mul", "real_div") and rounded:
                    assert all(s.type.size > 1 for s in op.sources)
    for after in check(lambda x: ops.mul(ops.floor(x), 3.0), (1, 1)):
        product = next(op for op in after.ops if op.kind == "mul")
        assert not any(s.op.kind == "floor" for s in product.sources)


def test_a_reduction_times_zero():
    for after in check(lambda x: ops.mul(ops.reduce_max(x, 1, True), 0.0), (3, 4)):
        assert "mul" not in kinds(after)


def test_select_takes_three_operands_of_one_shape():
    for after in check(lambda x, y: ops.select(ops.greater(x, 0.0), y, 0.5), (3, 1), (2, 3, 4)):
        for op in after.ops:
            if op.kind == "select":
                assert len({s.shape for s in op.sources}) == 1


def test_logic():
    def build(x, y):
        return ops.as_mask(ops.logical_xor(ops.logical_and(ops.greater(x, 0.0), ops.less(y, 0.0)), ops.less(x, 1.0)))

    never(check(build, (3, 4), (1, 4)), "logical_and", "logical_xor")


@pytest.mark.parametrize(
    "move",
    [
        lambda b: ops.transpose(b, (1, 0)),
        lambda b: ops.reshape(b, (12,)),
        lambda b: ops.concat((b, b), 0),
        lambda b: ops.slice_by_size(b, (1, 1), (2, 3)),
        lambda b: ops.split(b, num_splits=3, axis=0)[1],
        lambda b: ops.tile(b, (2, 1)),
        lambda b: ops.reverse(b, 1),
        lambda b: ops.stack((b, b), 0),
    ],
)
def test_booleans_only_between_a_comparison_and_a_select(move):
    for after in check(lambda x: ops.as_mask(move(ops.greater(x, 0.0))), (3, 4)):
        for op in after.ops:
            if op.types[0].dtype == "bool" and op.kind != "const":
                assert op.kind in ("greater", "not_equal", "logical_not")


def test_casts_of_booleans():
    before = built(lambda x: ops.cast(ops.cast(x, "bool"), "fp16"), (3, 4))
    feed = {"x0": R.integers(-1, 2, (3, 4))}
    for target in TARGETS:
        after = legal(before, target)
        never([after], "cast")
        np.testing.assert_array_equal(run(after, feed)["y0"], feed["x0"] != 0)


def test_images_come_as_uint8():
    x = input("image", (1, 3, 4, 4), "uint8")
    with origin("node"):
        program = Program([("image", x)], [("y", ops.mul(ops.cast(x, "fp16"), 1 / 255))])
    for target in TARGETS:
        assert kinds(legal(program, target)) == ["cast", "mul"]


def test_bias_is_an_addition():
    for after in check(lambda x: ops.conv(x, weight(4, 3, 3, 3), weight(4)), (1, 3, 6, 6)):
        assert kinds(after) == ["conv", "add"]
        assert next(op for op in after.ops if op.kind == "add").operand("y").shape == (1, 4, 1, 1)
    check(lambda x: ops.linear(x, weight(4, 6), weight(4)), (2, 6))


@pytest.mark.parametrize("spatial", [(1, 1), (3, 5)])
def test_affine_of_many_channels_between_reshapes(spatial):
    """Q31."""

    def build(x):
        y = ops.reshape(x, (2, 1024, *spatial))
        y = ops.add(ops.mul(y, weight(1, 1024, 1, 1)), weight(1, 1024, 1, 1))
        return ops.reshape(y, (2, -1))

    for after in check(build, (2, 32, 32 * spatial[0] * spatial[1])):
        assert not any(op.kind in ("add", "mul") and op.sources[1].shape == (1, 1024, 1, 1) for op in after.ops)


@pytest.mark.parametrize("reps", [(1, 2, 1), (5, 1, 3), (2, 7, 1), (1, 6, 5)])
def test_tile(reps):
    for after in check(lambda x: ops.tile(x, reps), (3, 1, 2)):
        for op in after.ops:
            if op.kind == "tile":
                assert all(r in (1, 2, 3, 4, 6, 8, 9, 12) for r in op.params["reps"])


@pytest.mark.parametrize("ty", [False, True])
def test_products_of_rank_five(ty):
    left, right = (2, 3, 2, 4, 5), ((2, 3, 2, 6, 5) if ty else (2, 3, 2, 5, 6))
    for after in check(lambda x, y: ops.matmul(x, y, transpose_y=ty), left, right, tolerance=1e-3):
        assert all(s.rank <= 4 for op in after.ops if op.kind == "matmul" for s in op.sources)


# ---------------------------------------------------------------- windows


KERNELS = [
    ((1, 17), 1, 1, (0, 8)),
    ((17, 1), 1, 1, (8, 0)),
    ((3, 3), 12, 1, (12, 12)),
    ((3, 3), 18, 2, (18, 18)),
    ((31, 31), 1, 1, (15, 15)),
    ((35, 3), 1, 2, (1, 1)),
    ((7, 7), 3, 1, (9, 9)),
    ((5, 40), 1, (1, 3), (0, 2)),
    ((3, 5), (9, 2), 1, (9, 4)),
    ((2, 33), 1, 1, (0, 0)),
]


@pytest.mark.parametrize(("kernel", "dilation", "stride", "pad"), KERNELS)
@pytest.mark.parametrize("groups", [1, 3])
def test_kernels_beyond_the_limits(kernel, dilation, stride, pad, groups):
    w = weight(3, 3 // groups, *kernel) / np.sqrt(np.prod(kernel))
    pads = (pad[0], pad[0], pad[1], pad[1])
    for after, target in zip(
        check(
            lambda x: ops.conv(x, w, weight(3), stride, "custom", pads, dilation, groups),
            (2, 3, 44, 47),
            tolerance=1e-3,
        ),
        TARGETS,
        strict=True,
    ):
        for op in after.ops:
            if op.kind == "conv":
                spans = [
                    (k - 1) * d + 1 for k, d in zip(op.operand("weight").shape[2:], op.params["dilations"], strict=True)
                ]
                assert spans[0] <= target.limits.kernel_height
                assert spans[1] <= target.limits.kernel_width
                assert max(op.params["dilations"]) <= target.limits.dilation


@pytest.mark.parametrize("pad_type", ["same", "same_lower", "valid"])
@pytest.mark.parametrize("rank", [3, 4])
def test_pad_types_and_rank_three(pad_type, rank):
    shape, kernel = ((1, 3, 9), (4, 3, 4)) if rank == 3 else ((1, 3, 9, 8), (4, 3, 4, 3))
    check(lambda x: ops.conv(x, weight(*kernel), None, 2, pad_type), shape, tolerance=1e-3)
    check(lambda x: ops.max_pool(x, 3, 2, pad_type), shape)
    check(lambda x: ops.avg_pool(x, 3, 2, pad_type, exclude_padding_from_average=True), shape)
    check(lambda x: ops.avg_pool(x, 3, 2, pad_type), shape)
    if pad_type == "valid":
        check(
            lambda x: ops.conv_transpose(x, weight(3, *kernel[1:]), None, strides=2, pad_type="valid"),
            shape,
            tolerance=1e-3,
        )


def test_kernels_that_meet_only_padding():
    for after in check(lambda x: ops.conv(x, weight(4, 3, 3, 3), None, 1, "custom", 1), (1, 3, 1, 1), tolerance=1e-3):
        assert next(op for op in after.ops if op.kind == "conv").operand("weight").shape == (4, 3, 1, 1)
    for after in check(lambda x: ops.conv(x, weight(4, 3, 3, 3), None, 1, "custom", 1), (1, 3, 2, 2), tolerance=1e-3):
        op = next(op for op in after.ops if op.kind == "conv")
        assert op.operand("x").shape[2] >= op.operand("weight").shape[2]


def test_wide_transposed_kernels():
    for after, target in zip(
        check(lambda x: ops.conv_transpose(x, weight(3, 2, 3, 20), strides=(1, 2)), (1, 3, 5, 6), tolerance=1e-3),
        TARGETS,
        strict=True,
    ):
        assert all(
            op.operand("weight").shape[3] <= target.limits.kernel_width
            for op in after.ops
            if op.kind == "conv_transpose"
        )


def test_global_pools():
    never(check(lambda x: ops.avg_pool(x, (40, 33)), (2, 3, 40, 33)), "avg_pool")
    never(check(lambda x: ops.max_pool(x, (40, 33)), (2, 3, 40, 33)), "max_pool")


# ---------------------------------------------------------------- slices, pads, resizing


@pytest.mark.parametrize(
    "build",
    [
        lambda x: ops.slice_by_size(x, (0, 1, 2), (2, 2, 3)),
        lambda x: ops.split(x, num_splits=3, axis=2),
        lambda x: ops.split(x, split_sizes=(1, 5), axis=2),
        lambda x: ops.crop(x, (1, 1), (2, 1)),
        lambda x: ops.slice_by_index(x, (0, 2, -1), (2, 0, 0), (1, -1, 1), squeeze_mask=(False, False, True)),
        lambda x: ops.slice_by_index(x, (0, 0, 1), (2, 3, 6), (1, 2, 2)),
        lambda x: ops.concat(
            (ops.slice_by_size(x, (0, 0, 1), (2, 3, 2)), ops.slice_by_size(x, (0, 0, 4), (2, 3, 1))), 2
        ),
    ],
)
def test_slices_at_an_offset_along_the_width(build):
    """Q08, Q09: only on engines that get them right."""
    for after, target in zip(check(build, (2, 3, 6)), TARGETS, strict=True):
        if target.has_quirk("Q08") or target.has_quirk("Q09"):
            for op in after.ops:
                assert op.kind != "slice_by_size" or op.params["begin"][-1] == 0
                assert op.kind != "split" or op.params["axis"] != op.operand("x").rank - 1
        never([after], "slice_by_index", "crop")


def test_slices_of_vectors():
    check(lambda x: ops.slice_by_size(x, (1,), (3,)), (6,))
    check(lambda x: ops.split(x, split_sizes=(1, 5), axis=0), (6,))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate"])
@pytest.mark.parametrize("pads", [(1, 2, 2, 1), (1, 1, 0, 0, 1, 2, 2, 1), (1, 2)])
@pytest.mark.parametrize("shape", [(2, 3, 5, 6), (2, 5, 6), (2, 2, 3, 4, 5)])
def test_pads(mode, pads, shape):
    if len(pads) > 2 * len(shape):
        return
    for after, target in zip(
        check(lambda x: ops.pad(x, pads, mode, 0.5 if mode == "constant" else 0.0), shape), TARGETS, strict=True
    ):
        for op in after.ops:
            if op.kind == "pad":
                assert op.operand("x").rank == 4
                assert op.params["mode"] == "constant" or target.family != "A13"


def test_sine():
    m1, m2, m3, m4 = check(lambda x: ops.add(ops.sin(x), ops.cos(x)), (3, 40), tolerance=3e-3)
    never([m1, m2], "sin", "cos")
    assert "sin" in kinds(m3)
    assert "sin" in kinds(m4)


@pytest.mark.parametrize(
    "build",
    [
        lambda x: ops.resize_bilinear(x, 9, 4),
        lambda x: ops.resize_bilinear(x, 9, 4, "STRICT_ALIGN_CORNERS"),
        lambda x: ops.resize_bilinear(x, 1, 14, "ALIGN_CORNERS"),
        lambda x: ops.resize_nearest_neighbor(x, 10, 14),
        lambda x: ops.upsample_nearest_neighbor(x, 2, 3),
        lambda x: ops.upsample_bilinear(x, 2, 3),
    ],
)
def test_resizing(build):
    after = check(build, (1, 2, 5, 7))
    assert not any("resize" in k or "upsample" in k for k in kinds(after[0]))
    assert any("resize" in k or "upsample" in k for k in kinds(after[3]))


def test_half_pixel_resizing_is_not_sent():
    """Never checked on an engine: refused where the engine's own would be used, exact as products elsewhere."""
    program = built(lambda x: ops.resize_bilinear(x, 9, 4, "UNALIGN_CORNERS"), (1, 2, 5, 7))
    same(program, legal(program, M1), feeds(program))
    found = passes.legalized(program, M4)[1]
    assert [v.why.kind for v in found] == ["attribute form"]


# ---------------------------------------------------------------- ports


def test_outputs_that_are_inputs_or_the_same():
    before = built(lambda x: (x, ops.relu(x), ops.relu(x)), (3, 4))
    for target in TARGETS:
        after = legal(before, target)
        outputs = [t for _, t in after.outputs]
        assert len(set(outputs)) == 3
        assert all(t.op.kind not in ("input", "const") for t in outputs)
        same(before, after, feeds(before))


def test_ports_of_other_types():
    x = input("x", (3, 4))
    found = passes.legalized(Program([("x", x)], [("y", ops.greater(x, 0.0))]), M4)[1]
    assert [(v.what, v.why.kind) for v in found] == [("output 'y'", "data type")]
    ids = input("ids", (3,), "int32")
    found = passes.legalized(Program([("ids", ids), ("x", x)], [("y", ops.gather(x, ids))]), M4)[1]
    assert {v.why.kind for v in found} == {"data type", "no engine form"}
    found = passes.legalized(Program([], [("y", const(np.ones(3)))]), M4)[1]
    assert [v.why.kind for v in found] == ["policy"]


# ---------------------------------------------------------------- limits and their messages


@pytest.mark.parametrize(
    ("build", "shapes", "target", "kind", "words"),
    [
        (ops.relu, [(1, 20000)], M1, "limit", "axis 1 has 20000 elements, the engine takes 16384 on M1"),
        (ops.relu, [(70000, 1)], M4, "limit", "axis 0 has 70000"),
        (lambda x: ops.reshape(x, (1, 2, 1, 3, 2, 2)), [(2, 12)], M4, "rank", "rank 6"),
        (ops.cumsum, [(3, 4)], M4, "no engine form", "cumsum"),
        (lambda x: ops.topk(x, 3, return_indices=False)[0], [(3, 4)], M4, "limit", "k = 3"),
        (lambda x: ops.topk(x, 2)[0], [(3, 4)], M1, "no engine form", "topk"),
        (lambda x: ops.max_pool(x, 31), [(1, 1, 64, 64)], M4, "limit", "window"),
        (lambda x: ops.conv(x, np.ones((2, 2, 1, 1, 1))), [(1, 2, 3, 3, 3)], M4, "rank", "rank 5"),
        (ops.conv, [(2, 3, 6, 6), (4, 3, 3, 3)], M4, "computed parameter", "batch of 1"),
        (lambda x: ops.pixel_shuffle(x, 5), [(1, 25, 2, 2)], M4, "limit", "by 5"),
        (
            lambda x: ops.transpose(ops.reshape(x, (1, 1, 66000 // 2, 2)), (0, 3, 2, 1)),
            [(1, 66000)],
            M1,
            "limit",
            "16384",
        ),
    ],
)
def test_limits(build, shapes, target, kind, words):
    program = built(build, *shapes)
    found = passes.legalized(program, target)[1]
    assert found
    assert any(v.why.kind == kind and words in v.why.text for v in found)
    assert all(v.origins == {"node"} or v.op.kind == "input" for v in found)
    with pytest.raises(passes.LegalizeError, match=target.chips.partition(",")[0]) as caught:
        passes.legalize(program, target)
    assert len(caught.value.violations) == len(found)
    reason = passes.check_node([t for _, t in program.outputs], [t for _, t in program.inputs], target)
    assert reason is not None


def test_check_node_looks_no_further_than_its_inputs():
    x = input("x", (1, 3, 8, 8))
    bad = ops.cumsum(x)
    y = ops.relu(bad)
    assert passes.check_node([bad], [x], M4) is not None
    assert passes.check_node([y], [bad], M4) is None
    assert passes.check_node([x], [x], M4) is None, "a node that passes its input through"
    assert passes.check_node([ops.as_mask(c := ops.greater(x, 0.0))], [c], M4) is None, "a bool that enters"
    assert passes.check_node([ops.greater(x, 0.0)], [x], M4) is None, "a bool that leaves"


# ---------------------------------------------------------------- quirks and rules belong together


def test_rules_name_rows_of_the_quirk_table():
    table = quirk_table()
    for target in TARGETS:
        for rule in _rules(target).rules:
            assert all(row in table for row in rule.quirks), rule.name
            assert not rule.quirks or any(target.has_quirk(row) for row in rule.quirks), (rule.name, target.name)
            assert rule.required or rule.name in {r.name for r in passes.RULES}


WORKED_AROUND = [
    "Q06",
    "Q08",
    "Q09",
    "Q13",
    "Q14",
    "Q15",
    "Q16",
    "Q17",
    "Q19",
    "Q26",
    "Q27",
    "Q28",
    "Q29",
    "Q30",
    "Q31",
    "Q36",
    "Q37",
    "Q40",
    "Q41",
    "Q46",
    "Q47",
]


def test_every_quirk_with_a_rule_has_it():
    bound = {row for target in TARGETS for rule in _rules(target).rules for row in rule.quirks}
    bound |= {row for rule in passes.RULES for row in rule.quirks}
    assert set(WORKED_AROUND) <= bound


# ---------------------------------------------------------------- any program


@settings(max_examples=150, deadline=None)
@given(programs(), st.sampled_from(TARGETS), st.booleans())
def test_any_program_becomes_legal(before, target, first):
    program = passes.optimize(before)[0] if first else before
    after = legal(program, target)
    same(before, after, feeds(before), 5e-3)
