"""Each rewrite: that it fires, what is left, and that the results stay."""

from __future__ import annotations

import numpy as np
import pytest
from any_program import programs
from hypothesis import given, settings
from ops.evaluate import run
from programs import R, built, feeds, kinds, marked, optimized, same
from rewrite_cases import CASES, NHWC, ROOT, interleaved_norm, layer_norm_in_pieces, weight

from aneforge import ops, passes
from aneforge.errors import OptionError


@pytest.mark.parametrize("case", CASES)
def test_rule(case):
    build, shapes, left = CASES[case]
    name = case.partition(" ")[0]
    before = built(build, *shapes)
    after, fired = optimized(before)
    assert name in fired
    if left is not None:
        assert kinds(after) == left
    assert marked(after)
    same(before, after, feeds(before), 1e-3)
    again, more = optimized(after)
    assert not more
    assert str(again) == str(after)
    if not next(r for r in passes.RULES if r.name == name).required:
        off, fired_without = optimized(before, f"-{name}")
        assert name not in fired_without
        same(before, off, feeds(before), 1e-3)


def test_every_rule_has_a_case():
    tested = {case.partition(" ")[0] for case in CASES} | {"mask-clamp", "affine-norm"}
    elsewhere = {r.name for r in passes.RULES if r.group == "composite"} | {"sdpa"}  # test_blocks, test_attention
    assert tested == {r.name for r in passes.RULES} - elsewhere


def test_names_are_unique_and_reasons_given():
    names = [r.name for r in passes.RULES]
    assert len(set(names)) == len(names)
    assert all(r.reason for r in passes.RULES)


# ---------------------------------------------------------------- what must not fire


def test_shared_weights_and_shared_results_stay():
    shared = weight(4, 3, 3, 3)
    before = built(
        lambda x: (ops.mul(ops.conv(x, shared), weight(4, 1, 1)), ops.relu(ops.conv(ops.abs(x), shared))), (1, 3, 6, 6)
    )
    after, _ = optimized(before)
    same(before, after, feeds(before), 1e-3)
    twice = built(lambda x: (ops.mul(y := ops.conv(x, shared), weight(4, 1, 1)), ops.relu(y)), (1, 3, 6, 6))
    _, fired = optimized(twice)
    assert "scale-into-weight" not in fired, "the convolution would be done twice"


def test_scales_that_fp16_weights_cannot_hold_stay():
    for factor in (1e-6, 1e7):
        _, fired = optimized(built(lambda x, f=factor: ops.mul(ops.conv(x, np.ones((4, 3, 1, 1))), f), (1, 3, 6, 6)))
        assert "scale-into-weight" not in fired
    _, fired = optimized(built(lambda x: ops.mul(ops.mul(x, 1e-5), 1e-5), (3, 4)))
    assert "constant-chain" not in fired, "1e-10 is 0 in fp16, two steps are not"


@pytest.mark.parametrize(
    "build",
    [
        lambda x: ops.reduce_sum_wide(x, 1),
        lambda x: ops.select_axis(x, 1, np.array([5, 3])),
        lambda x: ops.select_axis(ops.reshape(x, (1, 8, 8)), 1, np.array([5, 3])),
        lambda x: ops.running_sum(x, 1),
    ],
)
def test_halves_stay_halves(build):
    """Q04: sums and selections are halved and doubled, since what products accumulate ends at 32752."""
    before = built(build, (1, 64))
    after, fired = optimized(before)
    assert not {"scale-into-weight", "scale-of-sum"} & set(fired)
    assert [op.params["value"].max() for op in after.ops if op.kind == "const" and op.types[0].rank > 1] == [0.5]
    mean = built(lambda x: ops.mul(ops.reduce_sum_wide(x, 1), 1 / 64), (1, 64))
    assert kinds(optimized(mean)[0]) == ["matmul"], "but a mean needs no half"


def test_padding_is_not_shifted():
    before = built(lambda x: ops.conv(ops.add(x, weight(3, 1, 1)), weight(4, 3, 3, 3), pad=1), (1, 3, 6, 6))
    _, fired = optimized(before)
    assert "shift-before-conv" not in fired
    padded = built(lambda x: ops.conv(ops.pad(x, (1, 1, 1, 1), "constant", 1.0), weight(4, 3, 3, 3)), (1, 3, 6, 6))
    _, fired = optimized(padded)
    assert "pad-into-conv" not in fired


def test_full_constants_after_a_rounding_stay_full():
    before = built(lambda x: ops.mul(ops.floor(x), np.full((3, 4), 2.5)), (3, 4))
    after, fired = optimized(before)
    assert "scalar-constant" not in fired
    assert str(after) == str(before)


def test_transposes_stay_where_moving_them_makes_more():
    before = built(lambda x: (ops.relu(y := ops.transpose(x, NHWC)), ops.exp(y)), (2, 3, 4, 5))
    after, fired = optimized(before)
    assert not fired
    assert str(after) == str(before)


def test_transposes_stay_where_moving_them_makes_too_long_an_axis():
    """A linear layer takes its rows in parts; as a convolution it would have a width of 20000."""
    before = built(
        lambda x: ops.transpose(ops.matmul_any(ops.transpose(x, (0, 2, 1)), weight(2, 2)), (0, 2, 1)), (1, 2, 20000)
    )
    _, fired = optimized(before)
    assert "linear-to-conv" not in fired
    _, fired = optimized(
        built(
            lambda x: ops.transpose(ops.matmul_any(ops.transpose(x, (0, 2, 1)), weight(2, 2)), (0, 2, 1)), (1, 2, 2000)
        )
    )
    assert "linear-to-conv" in fired


@pytest.mark.parametrize(
    "near_miss",
    [
        lambda x, y: ops.mul(y, ops.sigmoid(x)),
        lambda x, y: ops.mul(ops.mul(y, ops.add(ops.erf(ops.mul(x, ROOT)), 1.0)), 0.5),
        lambda x, y: ops.mul(ops.mul(x, ops.add(ops.erf(ops.mul(x, 0.9)), 1.0)), 0.5),
        lambda x, y: ops.mul(ops.mul(x, ops.add(ops.erf(ops.mul(x, ROOT)), 1.0)), 0.6),
        lambda x, y: ops.mul(x, ops.real_div(ops.relu6(ops.add(x, 2.0)), 6.0)),
        lambda x, y: ops.mul(x, ops.real_div(ops.relu6(ops.add(y, 3.0)), 6.0)),
        lambda x, y: ops.real_div(x, ops.sqrt(ops.add(ops.reduce_mean_wide(ops.mul(y, y), -1), 1e-5))),
        lambda x, y: ops.real_div(x, ops.sqrt(ops.add(ops.reduce_sum_wide(ops.mul(x, x), -1), 1e-5))),
        lambda x, y: ops.mul(x, ops.tanh(ops.softplus_safe(y))),
        lambda x, y: interleaved_norm(x),
    ],
)
def test_near_misses_are_left_alone(near_miss):
    before = built(near_miss, (3, 32), (3, 32))
    after, fired = optimized(before)
    assert not set(fired) & {"silu", "gelu", "gelu-tanh", "hardswish", "mish", "unit-variance"}
    same(before, after, feeds(before), 1e-3)


# ---------------------------------------------------------------- safety


def test_norms_written_out_survive_fp16():
    """Squares of 700 overflow and an epsilon of 1e-12 vanishes, unless the pattern is recognized."""
    before = built(layer_norm_in_pieces, (2, 5, 64))
    after, _ = optimized(before)
    feed = feeds(before, lambda s: R.standard_normal(s) * 700)
    want = run(before, feed, "fp32")["y0"]
    plain = run(before, feed, "fp16")["y0"].astype(np.float64)
    assert not np.allclose(plain, want, atol=0.1), "what the rule is for"
    np.testing.assert_allclose(run(after, feed, "fp16")["y0"], want, atol=2e-2)
    nothing = {"x0": np.zeros((2, 5, 64))}
    assert (run(after, nothing, "fp16")["y0"] == 0).all()


def test_gelu_tanh_survives_fp16():
    before = built(CASES["gelu-tanh"][0], (3, 8))
    after, _ = optimized(before)
    feed = {"x0": np.linspace(-300, 300, 24).reshape(3, 8)}
    assert np.isfinite(run(after, feed, "fp16")["y0"]).all()


MASKS = [np.finfo(np.float32).min, -np.inf, -1e9, -65504.0]


@pytest.mark.parametrize("value", MASKS)
@pytest.mark.parametrize("opt", ["routes", "0"])
def test_masks_are_clamped(value, opt):
    fixed = np.where(np.tril(np.ones((6, 6), bool)), np.float32(0), np.float32(value))

    def build(x, keep):
        scores = ops.add(ops.add(x, fixed), ops.mul(ops.sub(1.0, keep), float(max(value, -3e38))))
        return ops.softmax(ops.reshape(scores, (2, 6, 6)), -1)

    before = built(build, (2, 6, 6), (2, 1, 6))
    after, fired = optimized(before, opt)
    assert "mask-clamp" in fired
    lows = [float(op.params["value"].min()) for op in after.ops if op.kind == "const"]
    assert min(lows) == -1e4
    keep = (R.random((2, 1, 6)) > 0.5).astype(np.float32)
    keep[1] = 0  # a row of nothing but masked
    feed = {"x0": R.standard_normal((2, 6, 6)), "x1": keep}
    got = run(after, feed, "fp16")["y0"].astype(np.float64)
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got.sum(-1), 1, atol=5e-3)
    blocked = np.broadcast_to(keep == 0, got.shape) | ~np.tril(np.ones((6, 6), bool))
    partly = blocked.any(-1) & ~blocked.all(-1)
    open_row = np.broadcast_to(partly[..., None], got.shape)
    assert (got[open_row & blocked] == 0).all()


def test_masks_by_select_are_clamped():
    before = built(lambda x, m: ops.softmax(ops.where(ops.greater(m, 0.0), x, -np.inf), -1), (2, 6), (2, 6))
    after, fired = optimized(before)
    assert "mask-clamp" in fired
    assert not any(np.isneginf(op.params["value"]).any() for op in after.ops if op.kind == "const")


def test_large_constants_elsewhere_stay():
    before = built(lambda x: ops.add(x, -50000.0), (2, 6))
    after, fired = optimized(before)
    assert "mask-clamp" not in fired
    same(before, after, feeds(before))


# ---------------------------------------------------------------- the switch


def test_switching():
    before = built(lambda x: ops.mul(ops.sigmoid(x), x), (3, 8))
    assert optimized(before)[1] == ["silu"]
    assert optimized(before, "max")[1] == ["silu"]
    assert optimized(before, "0")[1] == []
    assert optimized(before, "-silu,-gelu")[1] == []
    with pytest.raises(OptionError, match="did you mean composite"):
        passes.optimize(before, "-composit")
    with pytest.raises(OptionError, match="did you mean gelu"):
        passes.optimize(before, "-gelus")
    with pytest.raises(OptionError, match="cannot be switched off"):
        passes.optimize(before, "-mask-clamp")


def test_an_object_with_opt_will_do():
    class Options:
        opt = "0"

    assert passes.optimize(built(lambda x: ops.mul(ops.sigmoid(x), x), (3, 8)), Options())[1] == []


# ---------------------------------------------------------------- any program


@settings(max_examples=200, deadline=None)
@given(programs())
def test_meaning_is_kept(before):
    after, _ = optimized(before)
    assert marked(after) or any(t.op.kind == "input" for _, t in before.outputs)
    same(before, after, feeds(before), 5e-3)
    again, fired = optimized(after)
    assert not fired
    assert str(again) == str(after)
