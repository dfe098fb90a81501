"""`check` names each form that an engine takes and gets wrong, or that its compiler crashes on; lowering leaves none."""

import numpy as np
import pytest
from place_rows import HAZARDS

import aneforge as af
from aneforge import ops
from aneforge.ir import Program, input, origin
from aneforge.passes.hazards import _LOOKS

FINE = [
    (lambda x: ops.slice_by_size(x, (0, 0), (2, 3)), (2, 6)),
    (lambda x: ops.mul(ops.floor(x), np.full((2, 6), 3.0)), (2, 6)),
    (lambda x: ops.mul(ops.reduce_max(x, 1, True), 0.5), (2, 6)),
    (lambda x: ops.tanh(ops.square(x)), (2, 64)),
]


@pytest.mark.parametrize("place", HAZARDS, ids=str)
def test_named(place):
    place.named()


def test_every_look_is_here():
    assert {place.what for place in HAZARDS} == {*_LOOKS, "output"}


@pytest.mark.parametrize(("build", "shape"), FINE)
def test_near_misses(build, shape):
    x = input("x", shape)
    with origin("node"):
        assert af.check(Program([("x", x)], [("y", build(x))]), "m1") == []
