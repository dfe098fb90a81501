"""A capability hook without the compiler, for ep_cases.py: it claims runs of float32 Add, Mul and Relu of static shape
and writes their programs by hand. And makers of small models and sessions.

ANEFORGE_NATIVE_DIR may name a folder that holds _native and libaneforge_ep; else the installed package's are used.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

EP = "ANEForgeProvider"
Model = onnx.ModelProto


def load() -> tuple[Any, str]:
    name = "libaneforge_ep" + (".dylib" if sys.platform == "darwin" else ".so")
    if folder := os.environ.get("ANEFORGE_NATIVE_DIR"):
        sys.path.insert(0, folder)
        native, library = importlib.import_module("_native"), Path(folder) / name
        native.open(str(library))
        return native, str(library)
    from aneforge.backends import native as opened  # noqa: PLC0415 - only where the package is installed

    return opened.load(), str(opened.library_path().resolve())


native, LIBRARY = load()
seen: list[dict[str, Any]] = []


def program(
    nodes: list[Any], inputs: list[str], outputs: list[str], shape: dict[str, list[int]], const: dict[str, float]
) -> Any:
    def typed(name: str) -> str:
        return f"tensor<fp16, {shape[name]}> {ids[name]}"

    def argument(name: str) -> str:
        return f"fp16({const[name]!r})" if name in const else ids[name]

    ids = {name: f"v{i}" for i, name in enumerate([*inputs, *(n.output[0] for n in nodes)])}
    lines = []
    for n in nodes:
        names = sorted(n.input, key=lambda x: x in const)
        arguments = ", ".join(f"{k} = {argument(x)}" for k, x in zip("xy", names, strict=False))
        lines.append(f'{typed(n.output[0])} = {n.op_type.lower()}({arguments})[name = string("{ids[n.output[0]]}")];')
    text = f"program(1.3)\n{{\n    func main<ios18>({', '.join(map(typed, inputs))}) {{\n"
    text += "".join(f"        {line}\n" for line in lines) + f"    }} -> ({', '.join(ids[x] for x in outputs)});\n}}\n"
    return native.compile("host", text, b"", {"numerics": "engine", "quirks": ""})


def read_below(graph: Any) -> set[str]:
    names = {x for n in graph.node for x in n.input} | {o.name for o in graph.output}
    for n in graph.node:
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                names |= read_below(a.g)
    return names


def regions_of(model: Model, options: dict[str, str]) -> list[dict[str, Any]]:
    g = model.graph
    fed = {i.name for i in g.input}
    const = {
        t.name: float(numpy_helper.to_array(t).reshape(-1)[0])
        for t in g.initializer
        if t.name not in fed and t.data_location != T.EXTERNAL and t.data_type == T.FLOAT and np.prod(t.dims) == 1
    }
    shape: dict[str, list[int]] = {}
    for v in [*g.value_info, *g.input, *g.output]:
        tensor = v.type.tensor_type
        dims = [d.dim_value or int(options.get("extent", "0")) for d in tensor.shape.dim] or [1]
        if tensor.elem_type == T.FLOAT and tensor.HasField("shape") and all(dims):
            shape[v.name] = dims

    def claimable(n: Any) -> bool:
        known = all(x in const or x in shape for x in n.input) and n.output[0] in shape
        return n.op_type in ("Relu", "Add", "Mul") and not n.doc_string and known

    groups: list[list[int]] = []
    for i, n in enumerate(g.node):
        if not claimable(n):
            groups.append([])
        elif groups and groups[-1]:
            groups[-1].append(i)
        else:
            groups.append([i])
    if "one_group" in options:
        groups = [[i for group in groups for i in group]]
    out = []
    for group in [g for g in groups if g]:
        nodes = [g.node[i] for i in group]
        made = {n.output[0] for n in nodes}
        inputs = list(dict.fromkeys(x for n in nodes for x in n.input if x not in made and x not in const))
        rest = onnx.GraphProto(node=[n for i, n in enumerate(g.node) if i not in group], output=g.output)
        outputs = [n.output[0] for n in nodes if n.output[0] in read_below(rest)]
        executable = program(nodes, inputs, outputs, shape, const)
        out.append(
            {
                "name": f"region {len(out)}",
                "nodes": group,
                "executable": executable,
                "inputs": inputs,
                "outputs": outputs,
            }
        )
    return out


def hook(ep: int, parent_op: str, model_path: str, model: bytes, options: dict[str, str]) -> dict[str, Any]:
    proto = Model.FromString(model)
    inner = Model()
    inner.CopyFrom(proto)
    for t in inner.graph.initializer:  # the memory is gone after this call
        if t.data_location == T.EXTERNAL:
            where = {e.key: e.value for e in t.external_data}
            assert where["location"] == "@mem"
            t.raw_data = ctypes.string_at(int(where["offset"]), int(where["length"]))
            del t.external_data[:]
            t.data_location = T.DEFAULT
    seen.append({"ep": ep, "parent": parent_op, "path": model_path, "raw": proto, "model": inner, "options": options})
    answer: dict[str, Any] = {k: options[k] for k in ("compile_error", "warning", "on_overflow") if k in options}
    answer["regions"] = [] if "nothing" in options else regions_of(proto, options)
    return answer


def info(name: str, shape: Any, element: int = T.FLOAT) -> Any:
    return h.make_tensor_value_info(name, element, shape)


def make(nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: Any = (), opset: int = 17) -> bytes:
    named = [numpy_helper.from_array(np.asarray(v), k) for k, v in dict(constants).items()]
    model = h.make_model(h.make_graph(nodes, "g", inputs, outputs, named), opset_imports=[h.make_opsetid("", opset)])
    model.ir_version = 9
    return bytes(model.SerializeToString())


def mixed(shape: Any = (4, 64)) -> bytes:
    nodes = [
        h.make_node("Add", ["x", "x"], ["a"]),
        h.make_node("Mul", ["a", "c"], ["b"]),
        h.make_node("Sigmoid", ["b"], ["s"]),
        h.make_node("Mul", ["s", "a"], ["m"]),
        h.make_node("Relu", ["m"], ["y"]),
    ]
    return make(nodes, [info("x", shape)], [info("y", shape)], {"c": np.float32(0.5)})


def session(
    model: bytes, options: dict[str, str] | None = None, level: int = 99, **config: str
) -> ort.InferenceSession:
    so = ort.SessionOptions()
    so.log_severity_level = 4
    so.graph_optimization_level = ort.GraphOptimizationLevel(level)
    so.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for k, v in config.items():
        so.add_session_config_entry(k.replace("__", "."), v)
    made = ort.InferenceSession(model, so, providers=[(EP, options or {})], enable_fallback=False)
    made.disable_fallback()
    return made


def placed(s: ort.InferenceSession) -> list[tuple[str, list[str]]]:
    groups = s.get_provider_graph_assignment_info()
    return sorted((g.ep_name.removesuffix("ExecutionProvider"), [n.op_type for n in g.get_nodes()]) for g in groups)


def number(s: ort.InferenceSession, token: str = "token") -> int:
    s.set_ep_dynamic_options({"aneforge.token": token})
    return int(native.ep_of_token(token))


def branch(nodes: list[Any], output: str, shape: Any = (4, 600), constants: Any = ()) -> Any:
    named = [numpy_helper.from_array(np.asarray(v), k) for k, v in dict(constants).items()]
    return h.make_graph(nodes, output, [], [info(output, shape)], named)
