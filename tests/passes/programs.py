"""Runs programs before and after a pass, and compares."""

from __future__ import annotations

import numpy as np
from ops.evaluate import program, run

from aneforge import passes
from aneforge.ir import Program, input, origin, verify
from aneforge.targets import Target, resolve

TARGETS = [resolve(word) for word in ("m1", "m2", "m3", "m4")]
M1, M4 = TARGETS[0], TARGETS[3]
R = np.random.default_rng(7)


def built(build, *shapes) -> Program:
    tensors = [input(f"x{i}", s) for i, s in enumerate(shapes)]
    with origin("node"):
        made = build(*tensors)
    made = made if isinstance(made, tuple) else (made,)
    return Program([(t.op.params["name"], t) for t in tensors], [(f"y{i}", t) for i, t in enumerate(made)])


def feeds(given: Program, values=None) -> dict[str, np.ndarray]:
    values = values or R.standard_normal
    return {name: np.asarray(values(t.shape)).astype(np.float16) for name, t in given.inputs}


def same(before: Program, after: Program, feed: dict[str, np.ndarray], tolerance: float = 2e-4) -> None:
    """Equal results in fp32, where only a changed meaning shows."""
    verify(after)
    want, got = run(before, feed, "fp32"), run(after, feed, "fp32")
    assert want.keys() == got.keys()
    for name, value in want.items():
        assert got[name].shape == value.shape
        error = np.abs(got[name].astype(np.float64) - value) / (np.abs(value) + 1.0)
        assert np.max(error, initial=0.0) <= tolerance, name


def marked(given: Program) -> bool:
    """Whether every computing Op knows where it comes from."""
    return all(given.origins(op) for op in given.ops if op.kind not in ("input", "const"))


def kinds(given: Program) -> list[str]:
    return [op.kind for op in given.ops if op.kind not in ("input", "const")]


def optimized(given: Program, opt: str = "routes") -> tuple[Program, list[str]]:
    after, fired = passes.optimize(given, opt)
    return after, [rule.name for rule, _ in fired]


def legal(given: Program, target: Target) -> Program:
    after = passes.legalize(given, target)
    assert not passes.violations(after, target)
    assert marked(after)
    assert str(passes.legalize(after, target)) == str(after), "a legal program stays as it is"
    return after


assert program
