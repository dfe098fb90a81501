"""How compositions are tested: against numpy in float64, in both precisions."""

from __future__ import annotations

import numpy as np
from evaluate import program, run

from aneforge.ir import input, verify

FP32, FP16 = 4e-5, 4e-3
R = np.random.default_rng(5)


def normal(scale=1.0):
    return lambda shape: R.standard_normal(shape) * scale


def check(build, reference, *shapes, values=None, fp32=FP32, fp16=FP16):
    """Runs `build` on random inputs of `shapes` in both precisions; errors relative to |reference| + 1."""
    given = [np.asarray((values or normal())(s)).astype(np.float16) for s in shapes]
    tensors = [input(f"x{i}", s) for i, s in enumerate(shapes)]
    built = program(build(*tensors))
    verify(built)
    feed = {name: given[int(name[1:])] for name, _ in built.inputs}
    want = np.asarray(reference(*[g.astype(np.float64) for g in given]), np.float64)
    for numerics, tolerance in (("fp32", fp32), ("fp16", fp16)):
        got = run(built, feed, numerics)["y0"].astype(np.float64)
        assert got.shape == want.shape
        assert np.isfinite(got).all() == np.isfinite(want).all(), numerics
        error = np.abs(got - want) / (np.abs(want) + 1.0)
        assert np.nanmax(error, initial=0.0) <= tolerance, numerics
    return built
