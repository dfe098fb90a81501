"""ONNX Runtime's CPU provider on parts of a model: what is not on the engine, in `aneforge check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..onnx.importer import Imported

_ERRORS_ONLY = 3


class Cpu:
    """Runs nodes of a model, given by index, on known values."""

    def __init__(self, path: str, imported: Imported) -> None:
        self._path, self._imported = path, imported
        self._sessions: dict[tuple[int, ...], Any] = {}
        self._nodes: Any = None

    def __call__(self, nodes: Sequence[int], values: Mapping[str, Any]) -> dict[str, Any]:
        key = tuple(nodes)
        if key not in self._sessions:
            self._sessions[key] = self._session(key, values)
        session = self._sessions[key]
        names = [output.name for output in session.get_outputs()]
        feeds = {port.name: values[port.name] for port in session.get_inputs()}
        return dict(zip(names, session.run(names, feeds), strict=True))

    def whole(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of the whole model, unoptimized."""
        import onnxruntime

        session = onnxruntime.InferenceSession(self._path, _plain(), providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, dict(feeds)), strict=True))

    def _session(self, nodes: tuple[int, ...], values: Mapping[str, Any]) -> Any:
        import numpy as np
        import onnx
        import onnxruntime
        from onnx import helper, numpy_helper

        proto = self._proto()
        view = self._imported.view
        made = {name for i in nodes for name in view.nodes[i].outputs if name}
        read = dict.fromkeys(n for i in nodes for n in (*view.nodes[i].inputs, *view.nodes[i].implicit) if n)
        chosen = set(nodes)
        wanted = set(view.outputs)
        wanted.update(n for v in view.nodes if v.index not in chosen for n in (*v.inputs, *v.implicit))
        inputs, constants = [], []
        for name in read:
            if name in made:
                continue
            if isinstance(self._imported.values.get(name), np.ndarray):
                constants.append(numpy_helper.from_array(np.asarray(values[name]), name))
            else:
                kind = helper.np_dtype_to_tensor_dtype(np.asarray(values[name]).dtype)
                inputs.append(helper.make_tensor_value_info(name, kind, None))
        outputs = [onnx.ValueInfoProto(name=n) for i in nodes for n in view.nodes[i].outputs if n in wanted]
        graph = helper.make_graph([proto.graph.node[i] for i in nodes], "part", inputs, outputs, constants)
        model = helper.make_model(graph, opset_imports=proto.opset_import, ir_version=proto.ir_version)
        return onnxruntime.InferenceSession(
            model.SerializeToString(), _plain(), providers=["CPUExecutionProvider"], enable_fallback=False
        )

    def _proto(self) -> Any:
        if self._nodes is None:
            import onnx
            import onnx.inliner

            proto = onnx.load(self._path)
            self._nodes = onnx.inliner.inline_local_functions(proto) if proto.functions else proto
        return self._nodes


def _plain() -> Any:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = _ERRORS_ONLY
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return settings
