"""The independent judge of fp16 arithmetic: ONNX Runtime's CPU provider on the model itself, with a Cast to float16 and back
after every node that makes a float, and weights rounded. It tells what rounding at every node costs a model, whoever computes
it. Shares no code with the product.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from .unrolled import unroll

Array = NDArray[Any]
WIDE = (TensorProto.FLOAT, TensorProto.DOUBLE)
HALF_MAX = 65504.0  # largest finite fp16; the engine's ports saturate there


def rounded(values: Array) -> Array:
    """float32 values as fp16 holds them; finite ones beyond its range saturate."""
    kept = np.where(np.isfinite(values), np.clip(values, -HALF_MAX, HALF_MAX), values)
    return kept.astype(np.float16).astype(np.float32)


def _optimized(path: Path) -> onnx.ModelProto:
    """The model after ONNX Runtime's basic optimizations (batch normalization folded, as any fp16 conversion does first)."""
    with tempfile.TemporaryDirectory() as folder:
        settings = ort.SessionOptions()
        settings.log_severity_level = 4
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        settings.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        ort.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        return onnx.load(settings.optimized_model_filepath)


def run(path: Path, feeds: dict[str, Array]) -> dict[str, Array]:
    """Outputs of the model at `path` by name, every float rounded to fp16 where a node makes it."""
    model = unroll(_optimized(path), feeds)
    graph = model.graph
    for tensor in graph.initializer:
        if tensor.data_type in WIDE:
            values = numpy_helper.to_array(tensor)
            tensor.CopyFrom(numpy_helper.from_array(rounded(values).astype(values.dtype), tensor.name))
    idle = [value for value in graph.input if value.name not in feeds]
    for value in idle:  # initializers of old files are listed as inputs, and stay listed when they are folded away
        graph.input.remove(value)
    known = onnx.shape_inference.infer_shapes(model).graph
    types = {v.name: v.type.tensor_type.elem_type for v in [*known.value_info, *known.output]}
    floats = {name: kind for name, kind in types.items() if kind in WIDE}
    nodes = []
    for node in graph.node:
        nodes.append(node)
        for i, name in enumerate(node.output):
            if name in floats:
                node.output[i] = f"{name}/wide"
                nodes.append(helper.make_node("Cast", [f"{name}/wide"], [f"{name}/half"], to=TensorProto.FLOAT16))
                nodes.append(helper.make_node("Cast", [f"{name}/half"], [name], to=floats[name]))
    del graph.node[:]
    graph.node.extend(nodes)
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    given = {n: rounded(v).astype(v.dtype) if v.dtype in (np.float32, np.float64) else v for n, v in feeds.items()}
    return dict(zip([o.name for o in graph.output], session.run(None, given), strict=True))
