"""Under ANEFORGE_POISON what the engine gets wrong is NaN: the plain form shows it, and what is lowered has no such place."""

import numpy as np
import pytest

from aneforge import backends, mil, ops, passes
from aneforge.backends import native
from aneforge.errors import BackendUnavailableError
from aneforge.ir import Program, input, origin
from aneforge.options import Options
from aneforge.targets import resolve

try:
    native.load()
except (BackendUnavailableError, ImportError, OSError):  # pragma: no cover - a checkout without the native library
    pytest.skip("the native library is not built", allow_module_level=True)

R = np.random.default_rng(5)


def joined(x):
    return ops.concat((ops.slice_by_size(x, (0, 3), (2, 2)), ops.slice_by_size(x, (0, 1), (2, 2))), 1)


def wide(x):
    return ops.reshape(ops.mul(ops.reshape(x, (1, 10240, 1, 1)), FACTOR), (10240, 1))


FACTOR = R.standard_normal((1, 10240, 1, 1))
CASES = [
    ("Q09", joined, (2, 6), "m2"),
    ("Q31", wide, (1, 10240), "m5"),
    ("Q40", lambda x: ops.scaled_dot_product_attention(x, x, x), (1, 1, 520, 4), "m5"),
]


def run(program, target):
    options = Options(backend="host", target=target)
    executable = backends.compile(mil.write(program, options.numerics), options, resolve(target))
    return executable.run([R.standard_normal(t.shape).astype(np.float32) for _, t in program.inputs])[0]


@pytest.mark.parametrize(("row", "build", "shape", "target"), CASES, ids=[c[0] for c in CASES])
def test_poison(monkeypatch, row, build, shape, target):
    x = input("x", shape)
    with origin("node"):
        plain = Program([("x", x)], [("y", build(x))])
    lowered = passes.legalize(passes.optimize(plain)[0], resolve(target))
    monkeypatch.setenv("ANEFORGE_POISON", "1")
    assert row in resolve(target).poisoned_quirks
    assert np.isnan(run(plain, target)).all()
    assert np.isfinite(run(lowered, target)).all()
    monkeypatch.setenv("ANEFORGE_POISON", "0")
    assert np.isfinite(run(plain, target)).all()


def test_the_lowering_of_every_case_is_free_of_poison(monkeypatch):
    from quirk_rows import CASES as ROWS  # noqa: PLC0415

    monkeypatch.setenv("ANEFORGE_POISON", "1")
    for case in ROWS:
        if case.workarounds:
            case.mends()
