"""Masks, and what moves elements, against numpy."""

from __future__ import annotations

import numpy as np
from composed import R, check
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge import ops


def test_masks():
    a, b = (lambda x: ops.greater(x, 0.0)), (lambda y: ops.less(y, 0.5))
    for build, reference in (
        (ops.bool_and, np.logical_and),
        (ops.bool_or, np.logical_or),
        (ops.bool_xor, np.logical_xor),
    ):
        check(
            lambda x, y, f=build: ops.as_mask(f(a(x), b(y))),
            lambda x, y, f=reference: f(x > 0, y < 0.5),
            (3, 4),
            (1, 4),
            fp16=0,
        )
    check(lambda x: ops.as_mask(ops.as_bool(x)), lambda x: x != 0, (50,), values=lambda s: R.integers(-1, 2, s), fp16=0)
    check(lambda x, y: ops.where(a(x), y, 1.5), lambda x, y: np.where(x > 0, y, 1.5), (3, 1), (2, 3, 4), fp16=1e-3)
    check(
        lambda x, y: ops.where(a(x), 0.1, y), lambda x, y: np.where(x > 0, np.float16(0.1), y), (3, 4), (4,), fp16=1e-3
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_broadcast_to(data):
    full = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    drop = data.draw(st.integers(0, len(full)))
    small = [data.draw(st.sampled_from([1, d])) for d in full[drop:]]
    if not small:
        small = [1]
    check(lambda x: ops.broadcast_to(x, full), lambda x: np.broadcast_to(x, full), tuple(small), fp32=0, fp16=0)
    check(
        lambda x: ops.as_mask(ops.broadcast_to(ops.greater(x, 0.0), full)),
        lambda x: np.broadcast_to(x > 0, full),
        tuple(small),
        fp32=0,
        fp16=0,
    )


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_gather_constant(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    n = shape[axis]
    count = data.draw(st.integers(1, 9))
    form = data.draw(st.sampled_from(["any", "run", "same", "back"]))
    if form == "any":
        index = np.array(data.draw(st.lists(st.integers(-n, n - 1), min_size=count, max_size=count)))
    elif form == "same":
        index = np.full(count, data.draw(st.integers(0, n - 1)))
    else:
        index = np.arange(n)[:: 1 if form == "run" else -1]
    if data.draw(st.booleans()):
        index = index.reshape(1, -1)
    check(lambda x: ops.gather_constant(x, index, axis), lambda x: np.take(x, index, axis), shape, fp32=0, fp16=1e-7)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_slice_box(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    where = []
    for d in shape:
        step = data.draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
        a, b = data.draw(st.integers(0, d - 1)), data.draw(st.integers(0, d - 1))
        low, high = min(a, b), max(a, b)
        where.append(range(low, high + 1, step) if step > 0 else range(high, low - 1, step))
    check(
        lambda x: ops.slice_box(x, [r.start for r in where], [r.step for r in where], [len(r) for r in where]),
        lambda x: x[np.ix_(*where)],
        shape,
        fp32=0,
        fp16=1e-7,
    )


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_pad_any(data):
    mode = data.draw(st.sampled_from(["constant", "reflect", "edge", "wrap"]))
    shape = tuple(data.draw(st.lists(st.integers(2, 5), min_size=1, max_size=5)))
    most = 1 if mode == "reflect" else 3
    pads = [
        data.draw(st.tuples(st.integers(0, min(most, d - 1) if mode != "constant" else 3), st.integers(0, 1)))
        for d in shape
    ]
    check(lambda x: ops.pad_any(x, pads, mode), lambda x: np.pad(x, pads, mode=mode), shape, fp32=0, fp16=1e-7)


def test_negative_pads_cut():
    check(lambda x: ops.pad_any(x, [(-1, 2), (1, -2)]), lambda x: np.pad(x[1:, :-2], [(0, 2), (1, 0)]), (6, 5))
