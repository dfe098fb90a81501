"""What tests of known traps are made of: small models, an oracle that is not ours, and the two answers that count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx_harness import close
from oracle.mil_reference import evaluate

from aneforge import mil, passes
from aneforge.errors import AneforgeError, DynamicShapeError, ModelError, ReasonKind, UnsupportedModelError
from aneforge.onnx.importer import import_graph
from aneforge.onnx.view import from_model
from aneforge.options import Options
from aneforge.targets import resolve

Array = np.ndarray
KINDS = set(get_args(ReasonKind)) - {"bug"}
Node = tuple[Any, ...]
"""("Op", "inputs", "outputs", {attributes}, "domain"), the last two optional."""


@dataclass(frozen=True)
class Trap:
    """One way in which an importer goes wrong.

    Attributes:
        expect: "right", "refused", or "either".
        want: the outputs, where ONNX Runtime has no kernel or is no judge; else it is asked.
        fp16: relative tolerance in fp16, for the program that the oldest target would get; None: not compared.
        valid: False for a model that ONNX's checker calls invalid in some of its versions; saying so is a refusal then.
        kinds: kinds that a refusal may have; all that are listed in errors.py, if empty.
    """

    name: str
    nodes: Sequence[Node]
    inputs: Mapping[str, Array]
    constants: Mapping[str, Array] = field(default_factory=dict)
    expect: str = "right"
    opset: int = 17
    want: Sequence[Array] | None = None
    outputs: str = "y"
    types: Mapping[str, Any] = field(default_factory=dict)
    fp16: float | None = 1e-2
    kinds: frozenset[str] = frozenset()
    ir_version: int = 8
    valid: bool = True

    def __str__(self) -> str:
        return self.name

    def model(self) -> onnx.ModelProto:
        made, domains = [], {}
        for op, given, out, *rest in self.nodes:
            attributes = rest[0] if rest else {}
            domain = rest[1] if len(rest) > 1 else ""
            domains[domain] = self.opset if domain == "" else 1
            names = ["" if n == "_" else n for n in given.split()]
            made.append(helper.make_node(op, names, out.split(), name=f"n{len(made)}", domain=domain, **attributes))
        domains.setdefault("", self.opset)

        def port(name: str, array: Array) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

        outs = [
            helper.make_tensor_value_info(
                n, helper.np_dtype_to_tensor_dtype(np.dtype(self.types.get(n, np.float32))), None
            )
            for n in self.outputs.split()
        ]
        held = [numpy_helper.from_array(np.asarray(v), n) for n, v in self.constants.items()]
        graph = helper.make_graph(made, "trap", [port(n, a) for n, a in self.inputs.items()], outs, held)
        opsets = [helper.make_opsetid(d, v) for d, v in domains.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=self.ir_version)


def truth(trap: Trap) -> list[Array]:
    """From the row, or from ONNX Runtime's CPU provider."""
    if trap.want is not None:
        return [np.asarray(w) for w in trap.want]
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(trap.model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(trap.inputs))  # type: ignore[no-any-return]


def answer(trap: Trap, numerics: str, options: Options | None = None) -> list[Array] | list[str]:
    """The outputs, or the kinds of the refusals. Every other exception is what a trap is about, and passes through.

    fp16: rewritten and legalized for the oldest target; fp32: as imported.
    """
    chosen, target = options or Options(), resolve("m1")
    try:
        done = import_graph(from_model(trap.model()), chosen, target, passes.check_node)
        done.check()
        known = done.known_outputs()
        out = {name: np.asarray(value) for name, value in known.items()}
        if len(known) < len(set(done.view.outputs)):
            program = done.program()
            if numerics == "fp16":
                fused = passes.engine_form(target) if chosen.fuse_attention else None
                program = passes.legalize(passes.optimize(program, fused=fused)[0], target, fused is not None)
            written = mil.write(program, numerics)
            assert "inf" not in written.text, "an infinity in the text"
            arrays = {port.mil: np.asarray(trap.inputs[port.name]) for port in written.inputs}
            computed = evaluate(written.text, bytes(written.blob), arrays, numerics)
            for port in written.outputs:
                out[port.name] = computed[port.mil].astype(done.dtypes[port.name])
        return [out[name] for name in done.view.outputs]
    except UnsupportedModelError as error:
        return [node.reason.kind for node in error.nodes]
    except passes.LegalizeError as error:
        return [violation.why.kind for violation in error.violations]
    except DynamicShapeError:
        return ["dynamic shape"]
    except ModelError as error:
        if not trap.valid:
            return ["operator"]
        raise AssertionError(f"{trap}: a valid model was called broken: {error}") from error


def check(trap: Trap, options: Options | None = None) -> str:
    """Says "right" or "refused"; AssertionError for anything else, and for the one where the other is expected."""
    want = truth(trap)
    verdicts = set()
    for numerics, tolerance in (("fp32", 1e-4), ("fp16", trap.fp16)):
        if tolerance is None:
            continue
        got = answer(trap, numerics, options)
        if got and isinstance(got[0], str):
            assert set(map(str, got)) <= (trap.kinds or KINDS), f"{trap}: {got}"
            verdicts.add("refused")
            continue
        assert len(got) == len(want), trap
        for name, have, expected in zip(trap.outputs.split(), got, want, strict=True):
            wrong = close(np.asarray(have), np.asarray(expected), tolerance, tolerance / 3)
            assert not wrong, f"{trap}: {name} in {numerics}: {wrong}"
        verdicts.add("right")
    assert len(verdicts) == 1, f"{trap}: {verdicts}"
    (verdict,) = verdicts
    assert trap.expect in (verdict, "either"), f"{trap}: {verdict}"
    return verdict


__all__ = ["KINDS", "AneforgeError", "TensorProto", "Trap", "answer", "check", "truth"]
