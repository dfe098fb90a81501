"""Each row of composition_rows.py: the plain form is not to be had, the composed one is right and legal on every engine."""

from __future__ import annotations

import numpy as np
import pytest
from composition_rows import ALL, ROWS, Row

import aneforge as af
from aneforge import backends, mil, passes
from aneforge.backends import native
from aneforge.errors import BackendUnavailableError
from aneforge.ir import Program, input, origin
from aneforge.options import Options
from aneforge.targets import resolve

try:
    native.load()
except (BackendUnavailableError, ImportError, OSError):  # pragma: no cover - a checkout without the native library
    pytest.skip("the native library is not built", allow_module_level=True)

PLAIN = [row for row in ROWS if row.plain]


def program(row: Row, build) -> Program:
    tensors = [input(f"x{i}", a.shape) for i, a in enumerate(row.arrays)]
    with origin("node"):
        return Program([(f"x{i}", t) for i, t in enumerate(tensors)], [("y", build(*tensors))])


def run(row: Row, whole: Program, mac: str) -> np.ndarray:
    executable = backends.compile(mil.write(whole, "engine"), Options(backend="host", target=mac), resolve(mac))
    fed = [row.arrays[int(port.name.removeprefix("x"))].astype(np.float32) for port in executable.inputs]
    return executable.run(fed)[0].astype(np.float64)


def right(row: Row) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(row.want(*(a.astype(np.float16).astype(np.float64) for a in row.arrays)))


def close(row: Row, got: np.ndarray) -> bool:
    want = right(row)
    return got.shape == want.shape and np.allclose(
        got, want, rtol=row.tolerance, atol=row.tolerance * max(1, np.abs(want).max()) / 2
    )


@pytest.mark.parametrize("row", PLAIN, ids=str)
def test_the_plain_form_is_not_to_be_had(row):
    plain = program(row, row.plain)
    if row.wrong:
        assert all(not close(row, run(row, plain, mac)) for mac in row.who)
    else:
        assert tuple(mac for mac in ALL if af.check(plain, mac)) == row.who


@pytest.mark.parametrize("mac", ALL)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_composed_form_is(row, mac):
    lowered = passes.legalize(passes.optimize(program(row, row.composed))[0], resolve(mac))
    assert af.check(lowered, mac) == []
    got = run(row, lowered, mac)
    assert close(row, got), (got.ravel()[:6], right(row).ravel()[:6])
