"""A strategy of hypothesis: programs of all that rewrites look at."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st
from programs import R
from rewrite_cases import weight

from aneforge import ops
from aneforge.ir import Program, input, origin


@st.composite
def programs(draw: st.DrawFn) -> Program:
    shape = draw(st.sampled_from([(2, 3, 4, 4), (1, 4, 6), (3, 4)]))
    inputs = [input(f"x{i}", shape) for i in range(2)]
    pool = list(inputs)

    def constant(like):
        forms = [(), (1,), like[-1:], (1,) * len(like)]
        if len(like) > 2:
            forms.append((1, like[1], *(1,) * (len(like) - 2)))
        full = draw(st.sampled_from(forms))
        value = draw(st.sampled_from([0.0, 1.0, 0.5, -2.0, None]))
        return np.full(full, value) if value is not None else R.standard_normal(full)

    for node in range(draw(st.integers(1, 12))):
        x = draw(st.sampled_from(pool))
        kind = draw(
            st.sampled_from(
                [
                    "add",
                    "sub",
                    "mul",
                    "constant",
                    "relu",
                    "sigmoid",
                    "view",
                    "transpose",
                    "slice",
                    "conv",
                    "matmul",
                    "mean",
                    "floor",
                    "gate",
                ]
            )
        )
        with origin(node):
            if kind in ("add", "sub", "mul"):
                others = [t for t in pool if t.shape == x.shape]
                y = getattr(ops, kind)(x, draw(st.sampled_from(others)))
            elif kind == "constant":
                y = getattr(ops, draw(st.sampled_from(["add", "sub", "mul", "maximum"])))(x, constant(x.shape))
            elif kind in ("relu", "sigmoid", "floor"):
                y = getattr(ops, kind)(x)
            elif kind == "gate":
                y = ops.mul(x, ops.sigmoid(x))
            elif kind == "view":
                y = ops.reshape(
                    x, draw(st.sampled_from([(*x.shape[:-2], math.prod(x.shape[-2:])), (1, *x.shape), x.shape]))
                )
                if y.rank > 5 or y.rank < 2:
                    y = x
            elif kind == "transpose":
                y = ops.transpose(x, draw(st.permutations(range(x.rank))))
            elif kind == "slice":
                axis = draw(st.integers(0, x.rank - 1))
                begin = draw(st.integers(0, x.shape[axis] - 1))
                y = ops.slice_axis(x, axis, begin, draw(st.integers(1, x.shape[axis] - begin)))
            elif kind == "conv" and x.rank in (3, 4):
                y = ops.conv_any(
                    x, weight(2, x.shape[1], *(1,) * (x.rank - 2)) * 0.5, weight(2) if draw(st.booleans()) else None
                )
            elif kind == "matmul":
                y = ops.matmul_any(x, weight(x.shape[-1], 3) * 0.5)
            else:
                y = ops.reduce_mean_wide(x, draw(st.integers(0, x.rank - 1)))
        pool.append(y)
    outputs = draw(st.lists(st.sampled_from(pool[2:]), min_size=1, max_size=2))
    return Program([("x0", inputs[0]), ("x1", inputs[1])], [(f"y{i}", t) for i, t in enumerate(outputs)])
