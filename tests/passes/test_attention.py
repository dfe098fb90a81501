"""The rule `sdpa`: attention without a mask becomes the engine's own where that was seen to be right, and nothing else."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ops.evaluate import run
from programs import M1, TARGETS, R, built, feeds, kinds, marked, same

from aneforge import backends, mil, ops, passes
from aneforge.ir import Notes, const
from aneforge.options import Options

SDPA = "scaled_dot_product_attention"
B, H, S, T, D, E = 2, 3, 6, 9, 16, 5
Q, K, V = (B, H, S, D), (B, H, T, D), (B, H, T, E)
SWAP = (0, 1, 3, 2)
CAUSAL = np.where(np.tril(np.ones((S, T), bool), T - S), np.float32(0), np.float32(-1e4))
ALIBI = (np.linspace(0.5, 0.1, H)[:, None, None] * -np.abs(np.arange(S)[:, None] - np.arange(T))).astype(np.float32)


def fused(given, masked=False, opt="routes"):
    notes = Notes()
    after, fired = passes.optimize(given, opt, notes, masked)
    return after, [r.name for r, _ in fired], notes


def products(q, k, v, scale=lambda s: s, mask=None):
    scores = scale(ops.matmul(q, ops.transpose(k, SWAP)))
    return ops.matmul(ops.softmax(scores if mask is None else ops.add(scores, mask), -1), v)


def split_heads(x):
    """[S, H D] as [1, H, S, D], as models have it."""
    return ops.transpose(ops.reshape(x, (1, S, H, D)), (0, 2, 1, 3))


FORMS = {
    "as composed here": (lambda q, k, v: ops.attention(q, k, v), [Q, K, V]),
    "with a scale of its own": (lambda q, k, v: ops.attention(q, k, v, 0.2), [Q, K, V]),
    "without a scale": (lambda q, k, v: products(q, k, v), [Q, K, V]),
    "scores divided": (lambda q, k, v: products(q, k, v, lambda s: ops.real_div(s, math.sqrt(D))), [Q, K, V]),
    "scores multiplied": (lambda q, k, v: products(q, k, v, lambda s: ops.mul(D**-0.5, s)), [Q, K, V]),
    "half on each side": (lambda q, k, v: products(ops.mul(q, D**-0.25), ops.mul(k, D**-0.25), v), [Q, K, V]),
    "keys given transposed": (
        lambda q, k, v: ops.matmul(ops.softmax(ops.matmul(q, k, False, True), -1), v),
        [Q, K, V],
    ),
    "rank 3": (lambda q, k, v: ops.attention(q, k, v), [Q[1:], K[1:], V[1:]]),
    "heads split off": (
        lambda q, k, v: ops.attention(split_heads(q), split_heads(k), split_heads(v)),
        [(S, H * D)] * 3,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_fires(form):
    build, shapes = FORMS[form]
    before = built(build, *shapes)
    after, fired, _ = fused(before)
    assert "sdpa" in fired
    assert SDPA in kinds(after)
    assert "softmax" not in kinds(after)
    assert marked(after)
    same(before, after, feeds(before), 1e-3)
    feed = feeds(before)
    np.testing.assert_allclose(run(after, feed, "fp16")["y0"], run(before, feed, "fp32")["y0"], atol=1e-2)
    for opt in ("-sdpa", "0"):
        assert SDPA not in kinds(fused(before, opt=opt)[0])


def test_a_scale_of_one_over_the_root_costs_nothing():
    after, _, _ = fused(built(FORMS["scores divided"][0], Q, K, V))
    assert kinds(after) == [SDPA]


@pytest.mark.parametrize("form", FORMS)
def test_only_when_asked(form):
    build, shapes = FORMS[form]
    after, fired = passes.optimize(built(build, *shapes))
    assert "sdpa" not in {r.name for r, _ in fired}
    assert SDPA not in kinds(after)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_legal_on_every_target(target):
    before = built(FORMS["as composed here"][0], Q, K, V)
    assert passes.engine_form(target) is False
    after = passes.legalize(fused(before)[0], target, True)
    assert SDPA in kinds(after)
    assert not passes.violations(after, target)
    same(before, after, feeds(before), 1e-3)
    assert SDPA not in kinds(passes.legalize(fused(before)[0], target)), "without the option it is composed"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("numerics", ["engine", "fp32"])
def test_on_the_host_either_way(form, numerics):
    build, shapes = FORMS[form]
    before = built(build, *shapes)
    feed = feeds(before)
    want = run(before, feed, "fp32")["y0"]
    for fuse in (False, True):
        rewritten = fused(before)[0] if fuse else passes.optimize(before)[0]
        legal = passes.legalize(rewritten, M1, fuse)
        options = Options(backend="host", target="m1", numerics=numerics)
        executable = backends.compile(mil.write(legal, numerics), options, M1)
        got = executable.run([a.astype(np.float32) for a in feed.values()])[0]
        np.testing.assert_allclose(got, want, atol=1e-2 if numerics == "engine" else 1e-3)


MASKS = {
    "causal": CAUSAL,
    "a finite bias": ALIBI,
    "one row for all": CAUSAL[:1],
    "padding": CAUSAL[0][None, None, None],
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_stays_with_its_products(name):
    before = built(lambda q, k, v: ops.attention(q, k, v, None, MASKS[name]), Q, K, V)
    after, fired, notes = fused(before)
    assert "sdpa" not in fired
    assert [n.condition for n in notes.near if n.rule.name == "sdpa"] == [
        "its form with a mask was never checked on an engine"
    ]
    same(before, after, feeds(before), 1e-3)


@pytest.mark.parametrize("name", MASKS)
def test_a_target_that_takes_masks_gets_them_whole(name):
    before = built(lambda q, k, v: ops.attention(q, k, v, 0.3, MASKS[name]), Q, K, V)
    after, fired, _ = fused(before, masked=True)
    assert "sdpa" in fired
    (op,) = [op for op in after.ops if op.kind == SDPA]
    np.testing.assert_array_equal(op.operand("attn_mask").value.reshape(-1), MASKS[name].reshape(-1))
    same(before, after, feeds(before), 1e-3)
    executable = backends.compile(mil.write(after, "fp32"), Options(backend="host", numerics="fp32"), M1)
    feed = feeds(before)
    got = executable.run([a.astype(np.float32) for a in feed.values()])[0]
    np.testing.assert_allclose(got, run(before, feed, "fp32")["y0"], atol=1e-3)


def test_a_computed_mask_stays_too():
    before = built(lambda q, k, v, m: ops.attention(q, k, v, None, m), Q, K, V, (S, T))
    assert "sdpa" not in fused(before)[1]
    after, fired, _ = fused(before, masked=True)
    assert "sdpa" in fired
    same(before, after, feeds(before), 1e-3)


LONG = (1, 1, 600, 4)
NEAR = {
    "the attention weights have another reader": (
        lambda q, k, v: (ops.matmul(w := ops.softmax(ops.matmul(q, ops.transpose(k, SWAP)), -1), v), ops.exp(w)),
        [Q, K, V],
    ),
    "queries, keys and values have different batches or heads": (
        lambda q, k, v: products(q, k, v),
        [Q, (B, 1, T, D), (B, 1, T, E)],
    ),
    "the keys are not transposed": (
        lambda q, k, v: ops.matmul(ops.softmax(ops.matmul(q, k), -1), v),
        [Q, (B, H, D, T), V],
    ),
    "the mask is scaled with the scores": (
        lambda q, k, v: ops.matmul(
            ops.softmax(ops.mul(ops.add(ops.matmul(q, ops.transpose(k, SWAP)), ALIBI), 0.25), -1), v
        ),
        [Q, K, V],
    ),
    "more than 2048 positions, or 512 and more on both sides, give garbage (Q40)": (
        lambda q, k, v: products(q, k, v),
        [LONG, LONG, LONG],
    ),
    "queries, keys or values are constant": (
        lambda q, k: products(q, k, const(R.standard_normal(V))),
        [Q, K],
    ),
}


@pytest.mark.parametrize("condition", NEAR)
@pytest.mark.parametrize("masked", [False, True])
def test_near_miss(condition, masked):
    build, shapes = NEAR[condition]
    before = built(build, *shapes)
    after, fired, notes = fused(before, masked)
    assert "sdpa" not in fired
    assert condition in [n.condition for n in notes.near if n.rule.name == "sdpa"]
    same(before, after, feeds(before), 1e-3)


def test_softmax_over_another_axis_is_none():
    before = built(lambda q, k, v: ops.matmul(ops.softmax(ops.matmul(q, ops.transpose(k, SWAP)), 2), v), Q, K, V)
    after, fired, notes = fused(before)
    assert "sdpa" not in fired
    assert not notes.near
    same(before, after, feeds(before), 1e-3)


def test_what_legalize_is_given_by_hand():
    """Long or masked, the operation is composed even where attention may stay."""
    for shapes, mask in (([LONG] * 3, None), ([Q, K, V], ALIBI)):
        before = built(
            lambda q, k, v, m=mask: ops.scaled_dot_product_attention(q, k, v, None if m is None else const(m)), *shapes
        )
        after = passes.legalize(before, M1, True)
        assert SDPA not in kinds(after)
        same(before, after, feeds(before), 2e-3)
        assert passes.violations(before, M1)
