"""Every form of every operator against ONNX Runtime's CPU provider: at fp32 tightly, at fp16 as fp16 allows."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from onnx_harness import close, compute, imported, refusals
from onnx_rows import Const, Row, normal, rows
from onnx_rows_sequence import sequence_rows

from aneforge.onnx import inference, registry

ROWS = [*rows(), *sequence_rows()]


def build(row: Row) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The one-node model of a row, and its feeds."""
    names, feeds, infos, constants = [], {}, [], []
    for i, given in enumerate(row.inputs):
        if given is None:
            names.append("")
            continue
        name = f"i{i}"
        names.append(name)
        if isinstance(given, Const):
            constants.append(numpy_helper.from_array(given.value, name))
            continue
        array = given if isinstance(given, np.ndarray) else normal(*given, seed=i)
        array = np.asarray(array.astype(np.float16).astype(np.float32) if array.dtype == np.float32 else array)
        feeds[name] = array
        infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
    outs = [f"o{j}" for j in range(row.outputs)]
    node = helper.make_node(row.op, names, outs, name="the node", domain=row.domain, **row.attributes)
    graph = helper.make_graph([node], "row", infos, [helper.make_empty_tensor_value_info(o) for o in outs], constants)
    opsets = [helper.make_opsetid("", row.opset), *([helper.make_opsetid(row.domain, 1)] if row.domain else [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8 if row.opset < 20 else 10)
    types = onnx.shape_inference.infer_shapes(model).graph.output
    del model.graph.output[:]
    float_ = helper.make_tensor_type_proto(row.kind, None)
    for info in types:
        kind = info.type if info.type.tensor_type.elem_type else float_
        model.graph.output.append(helper.make_value_info(info.name, kind))
    return model, feeds


def truth(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(row: Row) -> None:
    model, feeds = build(row)
    want = truth(model, feeds)
    done = imported(model)
    assert refusals(done) == []
    for numerics, (rtol, atol) in (("fp32", row.fp32), ("fp16", row.fp16)):
        got = compute(done, feeds, numerics)
        for name, expected in zip(got, want, strict=True):
            steps = row.steps if numerics == "fp16" else 0
            assert close(got[name], expected, rtol, atol, steps) == "", f"{name} in {numerics}"


def test_a_tie_that_the_last_bit_decides_is_refused() -> None:
    """7 elements to 2: 1 / fp32(2 / 7) is 3.4999998, and 3.5 rounds the other way. Runtimes disagree with themselves."""
    form = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "round_prefer_ceil"}
    model, _ = build(Row("Resize", 13, ((1, 1, 7, 7), None, None, Const(np.array([1, 1, 2, 7]))), form))
    assert refusals(imported(model)) == ["attribute form: a nearest element that the last bit of the scale decides"]


@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_running_products(exclusive: int, reverse: int) -> None:
    """Against numpy: ONNX Runtime has no CumProd, and the node suite has it of float64 and integers only."""
    if inference.newest("CumProd") is None:
        pytest.skip("CumProd came with opset 26")
    form = {"exclusive": exclusive, "reverse": reverse}
    model, feeds = build(Row("CumProd", 26, ((3, 5), Const(np.array(-1))), form))
    x = np.flip(feeds["i0"], 1) if reverse else feeds["i0"]
    x = np.concatenate([np.ones((3, 1), x.dtype), x[:, :-1]], 1) if exclusive else x
    want = np.cumprod(x, 1)
    got = compute(imported(model), feeds)["o0"]
    assert close(got, np.flip(want, 1) if reverse else want, 1e-5, 1e-6) == ""


def test_every_handler_has_a_row() -> None:
    """Some operators stand in other tests: control flow, what is always refused, what the node suite has."""
    names = ("CenterCropPad", "CumProd", "DynamicQuantizeLinear", "If", "IsInf", "IsNaN", "Loop", "Scan", "Swish")
    elsewhere = {("", op) for op in names}
    tested = {(row.domain, row.op) for row in ROWS}
    newer = {("", op) for op in ("RMSNormalization",) if inference.newest(op) is None}
    assert set(registry.handlers()) - tested - elsewhere - newer == set()


def test_handlers_follow_the_schemas() -> None:
    """A handler knows only versions that exist, and the newest that onnx has; its attributes exist in some version."""
    for (domain, op), handler in registry.handlers().items():
        if domain != "" or op == "SimplifiedLayerNormalization":
            continue
        schemas = [s for s in onnx.defs.get_all_schemas_with_history() if s.name == op and s.domain in ("", "ai.onnx")]
        if not schemas:  # newer than the installed onnx
            continue
        versions = {s.since_version for s in schemas}
        own = {1} if op == "LayerNormalization" else set()
        if onnx.defs.onnx_opset_version() >= 28:  # an older onnx does not know all versions that the handlers do
            assert set(handler.since) - own <= versions, op
            assert set(handler.attributes) <= {a for s in schemas for a in s.attributes}, op
            assert len(handler.inputs) <= max(s.max_input for s in schemas), op
        assert inference.newest(op) in handler.since or op == "Upsample", op
