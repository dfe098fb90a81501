"""`check` names each form that an engine takes and gets wrong, or that its compiler crashes on; lowering leaves none."""

import numpy as np
import pytest

import aneforge as af
from aneforge import ops, passes
from aneforge.ir import Program, input, origin
from aneforge.targets import resolve

# row, graph, shape of its input, engines that are not to be given it
PLAIN = [
    ("Q09", lambda x: ops.slice_by_size(x, (0, 2), (2, 3)), (2, 6), {"m1", "m2", "m3"}),
    ("Q08", lambda x: ops.add(*ops.split(x, 2, axis=1)), (2, 6), {"m1", "m2", "m3"}),
    ("Q13", lambda x: ops.reduce_log_sum_exp(x, 1, True), (2, 6), {"m1", "m2", "m3", "m4", "m5"}),
    ("Q15", lambda x: ops.mul(ops.floor(x), 3.0), (2, 6), {"m1", "m2", "m3", "m4", "m5"}),
    ("Q17", ops.round, (2, 6), {"m1", "m2", "m3", "m4", "m5"}),
    ("Q28", lambda x: ops.mul(ops.reduce_max(x, 1, True), 0.0), (2, 6), {"m1", "m2", "m3", "m4", "m5"}),
    ("Q29", lambda x: x, (2, 6), {"m1", "m2", "m3", "m4", "m5"}),
    ("Q29", lambda x: ops.relu(ops.reshape(ops.relu(x), (2, 6))), (2, 6), {"m1", "m2", "m3", "m4", "m5"}),
    ("Q30", lambda x: ops.tanh(ops.square(x)), (2, 65), {"m1", "m2", "m3", "m4", "m5"}),
]
FINE = [
    (lambda x: ops.slice_by_size(x, (0, 0), (2, 3)), (2, 6)),
    (lambda x: ops.mul(ops.floor(x), np.full((2, 6), 3.0)), (2, 6)),
    (lambda x: ops.mul(ops.reduce_max(x, 1, True), 0.5), (2, 6)),
    (lambda x: ops.tanh(ops.square(x)), (2, 64)),
]


def program(build, shape):
    x = input("x", shape)
    with origin("node"):
        return Program([("x", x)], [("y", build(x))])


@pytest.mark.parametrize(("row", "build", "shape", "who"), PLAIN, ids=[p[0] for p in PLAIN])
def test_named(row, build, shape, who):
    plain = program(build, shape)
    for mac in ("m1", "m2", "m3", "m4", "m5"):
        found = [v for v in af.check(plain, mac) if row in str(v)]
        assert bool(found) == (mac in who), mac
        assert af.check(passes.legalize(passes.optimize(plain)[0], resolve(mac)), mac) == []


@pytest.mark.parametrize(("build", "shape"), FINE)
def test_near_misses(build, shape):
    assert af.check(program(build, shape), "m1") == []
