"""ONNX's own node tests, wholesale: none wrong; refusals are fine, but not too many.

Every case is taken as it is, and with some or all of its inputs turned into constants: what a model holds as parameters,
and what is folded at import.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import pytest
from onnx.backend.test.loader import load_model_tests
from onnx_harness import bake, close, compute, imported

from aneforge.errors import ModelError, UnsupportedModelError

# The expected values are printed with four digits.
COARSE = {"test_averagepool_2d_ceil_last_window_starts_on_pad"}


@functools.cache
def cases() -> list[tuple[str, onnx.ModelProto, dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """(name, model, feeds, expected) of the cases that have tensors only."""
    found = []
    for case in load_model_tests(kind="node"):
        if not case.data_sets:
            continue
        ins, outs = case.data_sets[0]
        if all(isinstance(a, (np.ndarray, np.generic)) for a in (*ins, *outs)):
            graph = case.model.graph
            feeds = {i.name: np.asarray(a) for i, a in zip(graph.input, ins, strict=False)}
            want = {o.name: np.asarray(a) for o, a in zip(graph.output, outs, strict=False)}
            found.append((case.name, case.model, feeds, want))
    return found


def baked(feeds: Mapping[str, np.ndarray]) -> Iterator[frozenset[str]]:
    """Which inputs become constants: none, all that are no floats, all but the first, both, all."""
    names = list(feeds)
    numbers = {n for n, a in feeds.items() if a.dtype.name not in ("float32", "float16")}
    yield from dict.fromkeys(
        map(frozenset, ((), numbers, names[1:], numbers | set(names[1:]), names)),
    )


def run(
    name: str, model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]
) -> str | None:
    """ "" for right, None for refused, else what is wrong."""
    try:
        done = imported(model)
        got = compute(done, feeds)
    except (UnsupportedModelError, ModelError):
        return None
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    for out, expected in want.items():
        loose = name in COARSE or expected.dtype == np.float16
        short = expected.dtype.name == "bfloat16"  # eight digits; where a chain of nodes rounds is open
        if text := close(got[out], expected, *((2e-2, 1e-2) if short else (3e-3, 3e-3) if loose else (2e-4, 2e-5))):
            return f"{out}: {text}"
    return ""


@pytest.mark.filterwarnings("ignore")
def test_node_suite() -> None:
    wrong, computed, folded = [], set(), set()
    for name, model, feeds, want in cases():
        for constants in baked(feeds):
            verdict = run(name, bake(model, {n: feeds[n] for n in constants}), feeds, want)
            if verdict:
                wrong.append(f"{name} with constants {sorted(constants)}: {verdict}")
            elif verdict == "":
                (folded if len(constants) == len(feeds) else computed).add(name)
    assert wrong == []
    total = len(cases())  # 1,669 in onnx 1.23
    if not total:
        pytest.skip("this onnx keeps its node tests in files")
    assert len(computed) > 0.51 * total, f"{len(computed)} of {total} have an engine form"
    assert len(folded) > 0.72 * total, f"{len(folded)} of {total} fold"
