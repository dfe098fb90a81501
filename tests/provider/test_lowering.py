"""What happens when things fail: compilation, legality, our own bugs. Stages are replaced by some that fail."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aneforge.provider
from aneforge import passes, pipeline
from aneforge.errors import CompileError, Reason
from aneforge.ir import Program
from aneforge.options import Options
from aneforge.provider import capability
from aneforge.provider.lowering import Budget
from aneforge.targets import Target
from tests.provider.graphs import close, cnn, floats, groups, interrupted, model, node, reference, session

Finish = Callable[[pipeline.Lowered, Options, Target], pipeline.Compiled]
real_finish, real_lower = pipeline.finish, pipeline.lower


def kinds(program: Program) -> set[str]:
    return {op.kind for op in program.ops}


def failing_on(*refused: str, more_than: int = 10**9) -> tuple[Finish, list[int]]:
    calls: list[int] = []

    def finish(lowered: pipeline.Lowered, options: Options, target: Target) -> pipeline.Compiled:
        calls.append(len(lowered.program.ops))
        if kinds(lowered.program) & set(refused) or len(lowered.program.ops) > more_than:
            raise CompileError("the compiler said no")
        return real_finish(lowered, options, target)

    return finish, calls


def chain() -> Any:
    ops = ["Relu", "Exp", "Sigmoid", "Tanh", "Softplus", "Abs"]
    nodes = [node(op, f"v{i}", f"v{i + 1}") for i, op in enumerate(ops)]
    return model(nodes, {"v0": [2, 3]}, {f"v{len(ops)}": [2, 3]})


def test_a_region_that_does_not_compile_is_split_once(monkeypatch: pytest.MonkeyPatch) -> None:
    finish, calls = failing_on("tanh")
    monkeypatch.setattr(pipeline, "finish", finish)
    made = session(chain())
    report = aneforge.provider.report(made)
    assert [r.nodes for r in report.regions] == [3]
    assert [(n.op, n.kind, n.reason) for n in report.on_cpu] == [
        (op, "compile", "the compiler said no") for op in ("Tanh", "Softplus", "Abs")
    ]
    assert len(calls) == 3
    x = floats(2, 3)
    close(made.run(None, {"v0": x})[0], reference(chain(), {"v0": x})[0])


def test_both_halves_may_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "finish", failing_on(more_than=9)[0])
    made = session(chain())
    x = floats(2, 3)
    close(made.run(None, {"v0": x})[0], reference(chain(), {"v0": x})[0])
    report = aneforge.provider.report(made)
    assert len(report.regions) <= 2
    assert report.regions or {n.kind for n in report.nodes} == {"compile"}


def test_the_engines_allowance_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three failures, and nothing more is tried in this session."""
    finish, calls = failing_on(more_than=0)
    monkeypatch.setattr(pipeline, "finish", finish)
    monkeypatch.setattr(capability, "Budget", lambda: Budget(3, 60.0))
    nodes = []
    for i in range(6):  # six regions of two nodes with Det between them
        nodes += [node("Exp", f"a{i}", f"b{i}"), node("Tanh", f"b{i}", f"c{i}"), node("Det", f"c{i}", f"d{i}")]
        nodes += [node("Mul", f"d{i} one", f"a{i + 1}")]
    made = session(model(nodes, {"a0": [2, 2]}, {"a6": [2, 2]}, {"one": np.eye(2, dtype=np.float32)}))
    assert len(calls) == 3
    report = aneforge.provider.report(made)
    assert not report.regions
    assert any("allowance" in (n.reason or "") for n in report.nodes)


def test_budget() -> None:
    assert not Budget().spent()
    engine = Budget.of_engine()
    for _ in range(2):
        engine.failed(1.0)
    assert not engine.spent()
    engine.failed(1.0)
    assert engine.spent()
    slow = Budget.of_engine()
    slow.failed(61.0)
    assert slow.spent()


def test_a_node_outside_the_targets_limits_leaves_its_region(monkeypatch: pytest.MonkeyPatch) -> None:
    def lower(program: Program, options: Options, target: Target) -> pipeline.Lowered:
        bad = [op for op in program.ops if op.kind == "sigmoid"]
        if bad:
            why = Reason("limit", "too wide")
            raise passes.LegalizeError(target, [passes.Violation(bad[0], "sigmoid", why, program.origins(bad[0]))])
        return real_lower(program, options, target)

    monkeypatch.setattr(pipeline, "lower", lower)
    made = session(chain())
    report = aneforge.provider.report(made)
    assert [(n.op, n.kind, n.reason) for n in report.on_cpu] == [("Sigmoid", "limit", "sigmoid: too wide")]
    assert [r.nodes for r in report.regions] == [2, 3]
    x = floats(2, 3)
    close(made.run(None, {"v0": x})[0], reference(chain(), {"v0": x})[0])


def test_a_bug_in_one_region_costs_that_region(monkeypatch: pytest.MonkeyPatch) -> None:
    def lower(program: Program, options: Options, target: Target) -> pipeline.Lowered:
        if "exp" in kinds(program):
            raise KeyError("oops")
        return real_lower(program, options, target)

    monkeypatch.setattr(pipeline, "lower", lower)
    made = session(interrupted())
    report = aneforge.provider.report(made)
    assert groups(made) == len(report.regions) == 1
    assert {n.kind for n in report.on_cpu} == {"bug", "operator"}
    assert any("KeyError" in (n.reason or "") for n in report.on_cpu)


def test_a_bug_in_the_hook_costs_the_engine_but_not_the_session(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def import_graph(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(capability, "import_graph", import_graph)
    made = session(cnn())
    x = floats(1, 3, 8, 8)
    close(made.run(None, {"x": x})[0], reference(cnn(), {"x": x})[0])
    assert "ZeroDivisionError" in aneforge.provider.report(made).warnings[0]
    with pytest.raises(Exception, match="strict=1"):
        session(cnn(), {"strict": "1"})


def test_nothing_of_the_model_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are read in place: whatever outlives the call must not hold on to them."""
    kept: list[weakref.ref[object]] = []
    real = capability.import_graph

    def import_graph(*args: Any) -> Any:
        made = real(*args)
        kept.append(weakref.ref(made))
        return made

    monkeypatch.setattr(capability, "import_graph", import_graph)
    made = session(cnn())
    gc.collect()
    assert kept
    assert all(ref() is None for ref in kept)
    assert made.run(None, {"x": floats(1, 3, 8, 8)})


def test_more_than_five_axes_stay_inside_a_region() -> None:
    """Windows of an image pass through six axes. What a node on the CPU reads with six axes is made on the CPU."""
    windows = [
        node("Relu", "x", "a"),
        node("Reshape", "a s6", "b"),
        node("Transpose", "b", "c", perm=[0, 1, 3, 2, 4, 5]),
        node("Reshape", "c s3", "d"),
        node("Exp", "d", "y"),
    ]
    shapes = {"s6": np.array([1, 2, 4, 2, 4, 3]), "s3": np.array([-1, 16, 3])}
    x = floats(1, 8, 8, 3)
    whole = model(windows, {"x": [1, 8, 8, 3]}, {"y": [4, 16, 3]}, shapes)
    made = session(whole)
    assert groups(made) == 1 and len(aneforge.provider.report(made).on_cpu) == 0
    close(made.run(None, {"x": x})[0], reference(whole, {"x": x})[0])
    for reads, on_cpu in (("b", {"Reshape", "Neg"}), ("c", {"Transpose", "Neg"})):
        torn = [*windows, node("Neg", reads, "z")]
        shape = [1, 2, 4, 2, 4, 3] if reads == "b" else [1, 2, 2, 4, 4, 3]
        both = model(torn, {"x": [1, 8, 8, 3]}, {"y": [4, 16, 3], "z": shape}, shapes)
        made = session(both)
        assert {n.op for n in aneforge.provider.report(made).on_cpu} >= on_cpu
        for got, want in zip(made.run(None, {"x": x}), reference(both, {"x": x}), strict=True):
            close(got, want)
