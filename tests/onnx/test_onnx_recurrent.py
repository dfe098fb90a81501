"""What the rows of RNN, GRU and LSTM do not show: the batch-first layout, limits, refusals, the form in the program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_harness import bake, close, compute, imported, refusals
from onnx_rows import Const, Row, c, w
from onnx_rows_sequence import GATES, recurrent
from test_onnx_handlers import build, truth
from test_onnx_node_suite import cases

from aneforge.onnx.handlers.recurrent import LONGEST


def reasons(row: Row) -> list[str]:
    return refusals(imported(build(row)[0]))


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("states", ["run", "known"])
def test_batch_first(op: str, direction: str, states: str) -> None:
    """layout = 1, which ONNX Runtime's CPU provider does not have, against its layout = 0 with axes swapped."""
    plain = recurrent(op, states=states, direction=direction, opset=14)
    first = {i: v for i, v in enumerate(plain.inputs) if i == 0 or i > 4}

    def swap(value: Any) -> Any:
        if isinstance(value, Const):
            return Const(value.value.swapaxes(0, 1))
        return value.swapaxes(0, 1) if isinstance(value, np.ndarray) else (value[1], value[0], *value[2:])

    inputs = tuple(swap(v) if i in first else v for i, v in enumerate(plain.inputs))
    model, feeds = build(replace(plain, inputs=inputs, attributes={**plain.attributes, "layout": 1}))
    other, _ = build(plain)
    want = truth(other, {name: value.swapaxes(0, 1) for name, value in feeds.items()})
    got = list(compute(imported(model), feeds).values())
    want = [want[0].transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in want[1:])]
    assert [close(g, e, 1e-4, 1e-5) for g, e in zip(got, want, strict=True)] == [""] * len(want)


@pytest.mark.parametrize(("op", "opset"), [("RNN", 1), ("RNN", 6), ("GRU", 1), ("GRU", 3), ("LSTM", 1), ("LSTM", 6)])
def test_before_opset_7(op: str, opset: int) -> None:
    """The same equations; ONNX Runtime has them from 7 on only."""
    new = recurrent(op, opset=7, direction="bidirectional", states="run", clip=0.4)
    old, feeds = build(replace(new, opset=opset, attributes={**new.attributes, "output_sequence": 1}))
    want = truth(build(new)[0], feeds)
    got = list(compute(imported(old), feeds).values())
    assert [close(g, e, 1e-4, 1e-5) for g, e in zip(got, want, strict=True)] == [""] * len(want)


def test_node_suite_of_recurrent_operators() -> None:
    """With all but the sequence known, every case of onnx is computed."""
    found = 0
    for name, model, feeds, want in cases():
        if not name.startswith(tuple(f"test_{simple}{op.lower()}_" for op in GATES for simple in ("", "simple_"))):
            continue
        done = imported(bake(model, {n: a for n, a in feeds.items() if n != "X"}))
        assert refusals(done) == [], name
        got = compute(done, feeds)
        for out, expected in want.items():
            assert close(got[out], expected, 2e-4, 2e-5) == "", name
        found += 1
    assert found >= 14 or onnx.defs.onnx_opset_version() < 28


def test_limit_is_named() -> None:
    (reason,) = reasons(recurrent("GRU", steps=LONGEST + 1, batch=1))
    assert reason == f"limit: {LONGEST + 1} steps to unroll; up to {LONGEST} are unrolled"
    (reason,) = reasons(recurrent("GRU", steps=LONGEST // 2 + 1, batch=1, direction="bidirectional"))
    assert f"{LONGEST + 2} steps" in reason


@pytest.mark.parametrize(("row", "words"), [
    (replace(recurrent("RNN"), inputs=((5, 3, 4), (1, 6, 4), w(1, 6, 6))), "computed parameter: its 'W'"),
    (recurrent("RNN", lens=[5, 0, 1]), "attribute form: sequence_lens"),
    (recurrent("RNN", lens=[5, 6, 1]), "attribute form: sequence_lens"),
    (recurrent("RNN", activations=["Cubic"]), "attribute form: the activation 'Cubic'"),
    (recurrent("RNN", activations=["ThresholdedRelu"]), "attribute form: the activation ThresholdedRelu without"),
    (recurrent("RNN", activations=["Affine"], activation_alpha=[1.0]), "attribute form: the activation Affine without"),
    (recurrent("RNN", activations=["Elu"], activation_alpha=[1.0, 2.0]), "attribute form: more values"),
    (recurrent("LSTM", activations=["Tanh"]), "attribute form: 1 activations"),
    (recurrent("RNN", clip=0.0), "attribute form: clip = 0.0"),
    (recurrent("GRU", linear_before_reset=2), "attribute form: linear_before_reset = 2"),
    (recurrent("LSTM", input_forget=-1), "attribute form: input_forget = -1"),
    (recurrent("RNN", layout=2), "attribute form: layout = 2"),
    (recurrent("RNN", direction="sideways"), "attribute form: the direction 'sideways'"),
    (replace(recurrent("LSTM"), attributes={"hidden_size": 5}), "attribute form: W of shape"),
    (replace(recurrent("GRU"), inputs=((5, 3, 4), w(1, 18, 5), w(1, 18, 6))), "attribute form: W of shape"),
    (replace(recurrent("GRU"), inputs=((5, 3, 4), w(1, 18, 4), w(1, 18, 6), w(1, 18))), "attribute form: B of shape"),
    (replace(recurrent("RNN"), inputs=((5, 3, 4), c(np.full((1, 6, 4), np.inf)), w(1, 6, 6))), "data type: "),
])  # fmt: skip
def test_refusals(row: Row, words: str) -> None:
    (reason,) = reasons(row)
    assert reason.startswith(words)


def test_run_time_lengths_are_refused() -> None:
    row = recurrent("RNN")
    row = replace(row, inputs=(*row.inputs, np.array([5, 4, 3], np.int32)))
    (reason,) = reasons(row)
    assert reason.startswith("computed parameter: its 'sequence_lens'")


@pytest.mark.parametrize("op", GATES)
def test_gates_are_not_cut_out_of_the_last_axis(op: str) -> None:
    """Q08 and Q09: such slices give infinities or wrong elements on older engines."""
    program = imported(build(recurrent(op, states="run"))[0]).program()
    slices = [o for o in program.ops if o.kind.startswith("slice")]
    assert slices
    assert all(o.types[0].shape[-1] == o.operand("x").shape[-1] for o in slices)


def test_a_state_of_zeros_costs_nothing() -> None:
    """Exporters write zeros for the initial states."""
    row = recurrent("LSTM", states="known")
    zeros = c(np.zeros((1, 3, 6), np.float32))
    none = imported(build(recurrent("LSTM"))[0]).program()
    some = imported(build(replace(row, inputs=(*row.inputs[:5], zeros, zeros)))[0]).program()
    assert len(some.ops) == len(none.ops)
