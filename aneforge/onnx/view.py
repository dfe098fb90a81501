"""The neutral view of a graph: what the importer sees, whoever made it.

Two doors lead here. `from_model` reads a file, bytes or a ModelProto (the strict road): it checks the model, never
changes the caller's proto, inlines model functions, and fixes dimensions. `from_bytes` reads what the native provider
hands over: a serialized ModelProto of the graph as ONNX Runtime has it, with large weights given by address.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, TensorProto, ValueInfoProto

from ..errors import ModelError
from . import inference
from .dims import Binding
from .tensors import Array, External, numpy_dtype, to_array

Dim = int | str | None
Shape = tuple[Dim, ...]


@dataclass(frozen=True, eq=False)
class ValueView:
    """One value. `shape` None: the rank is unknown; a dim is an extent, a symbol, or None. `dtype` None: not a tensor,
    or unknown. `data`: the constant's values, not to be written to. `outer`: belongs to an enclosing graph."""

    name: str
    dtype: np.dtype[Any] | None = None
    shape: Shape | None = None
    data: Array | None = None
    outer: bool = False
    kind: str = "tensor"  # or "sequence", "optional", "map", "sparse_tensor", "unknown"


@dataclass(frozen=True, eq=False)
class NodeView:
    """One node. `domain` "" is ai.onnx; `version` is the version of its domain that the model imports (0: none).
    '' among inputs or outputs means absent."""

    index: int
    name: str
    op: str
    domain: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]  # int, float, str, tuple of those, numpy array, GraphView

    @cached_property
    def implicit(self) -> tuple[str, ...]:
        """Names of this graph, or of graphs around it, that the node's bodies read."""
        bodies = [b for a in self.attributes.values() for b in (a if isinstance(a, tuple) else (a,))]
        names: dict[str, None] = {}
        for body in bodies:
            if isinstance(body, GraphView):
                names.update(dict.fromkeys(body.outer))
        return tuple(names)


@dataclass(frozen=True, eq=False)
class GraphView:
    """One graph: nodes in topological order; inputs are what is fed at run time, in the model's order."""

    name: str
    nodes: tuple[NodeView, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, ValueView]
    opsets: Mapping[str, int] = field(default_factory=dict)
    ir_version: int = onnx.IR_VERSION

    @cached_property
    def outer(self) -> tuple[str, ...]:
        """Names that are read here (or in bodies below) and defined in an enclosing graph."""
        own = set(self.inputs) | {v.name for v in self.values.values() if v.data is not None and not v.outer}
        own.update(o for n in self.nodes for o in n.outputs)
        read = [name for n in self.nodes for name in (*n.inputs, *n.implicit)] + list(self.outputs)
        return tuple(dict.fromkeys(name for name in read if name and name not in own))

    @cached_property
    def read(self) -> frozenset[str]:
        """Names that somebody reads: nodes, bodies, or whoever asks for the graph's outputs."""
        return frozenset(name for n in self.nodes for name in (*n.inputs, *n.implicit)) | frozenset(self.outputs)


def from_model(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    dims: Mapping[str, int] | None = None,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> GraphView:
    """The view of a whole model: a file name, the bytes of a file, or a ModelProto, which is not changed.

    Initializers are constants here even when the model lists them as inputs: nobody can feed them on this road.

    Args:
        dims: extents for symbolic dimensions, {"batch": 1}.
        input_shapes: full shapes of inputs, {"x": (1, 3, 224, 224)}; they also fix the symbols they meet.

    Raises:
        ModelError: the file is missing, not ONNX, corrupt, invalid or too new, or its external data is missing, too
            short, or outside the model's folder.
        OptionError: dims or input_shapes name something that the model does not have, or contradict it.
    """
    proto, what, folder = _read(model)
    try:
        return _whole(proto, what, folder, dims or {}, input_shapes or {})
    except (AttributeError, TypeError, UnicodeError, OverflowError, KeyError, IndexError) as e:
        # Protobuf lets through what no writer makes: names that are no text, types without a type.
        raise ModelError(f"{what} is damaged: {type(e).__name__}: {e}") from e


def from_bytes(
    serialized: bytes,
    dims: Mapping[str, int] | None = None,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> GraphView:
    """The view of what the native provider hands over. External tensors at the location "@mem" are wrapped where they
    are (offset: address, length: bytes): the view must not outlive that memory. Initializers that are also inputs can
    be replaced at run time (IR 4 and later) and are no constants here.

    Raises:
        ModelError: the bytes are no ModelProto.
        OptionError: input_shapes contradict the graph; names that it does not have are passed over.
    """
    proto = _parse(serialized, "the graph handed over")
    try:
        return _part(proto, dims or {}, input_shapes or {})
    except (AttributeError, TypeError, UnicodeError, OverflowError, KeyError, IndexError) as e:
        raise ModelError(f"the graph handed over cannot be read: {type(e).__name__}: {e}") from e


def from_function(graph: onnx.GraphProto, opsets: Mapping[str, int], ir_version: int) -> GraphView:
    """The view of the body of a function, made a graph."""
    reader = _Reader(External(), opsets, Binding.of([], {}, {}))
    return reader.graph(graph, {}, [i.name for i in graph.input], [], ir_version)


def _part(proto: onnx.ModelProto, dims: Mapping[str, int], input_shapes: Mapping[str, tuple[int, ...]]) -> GraphView:
    tensors = {t.name: to_array(t, External(memory=True)) for t in proto.graph.initializer}
    if proto.ir_version >= 4:
        for name in [i.name for i in proto.graph.input]:
            tensors.pop(name, None)
    fed = [i for i in proto.graph.input if i.name not in tensors]
    binding = Binding.of(fed, dims, input_shapes, strict=False)
    infos = list(proto.graph.value_info)
    if binding.symbols or binding.inputs or not all(_static(v) for v in [*infos, *proto.graph.output]):
        infos = [*infos, *inference.infer(inference.skeleton(proto, tensors, External(memory=True)), binding)]
    reader = _Reader(External(memory=True), {d.domain: d.version for d in proto.opset_import}, binding)
    return reader.graph(proto.graph, tensors, [i.name for i in fed], infos, proto.ir_version)


# ---------------------------------------------------------------- reading the file


def _read(model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> tuple[onnx.ModelProto, str, str | None]:
    if isinstance(model, onnx.ModelProto):
        return model, "the model", None
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _parse(bytes(model), "the model"), "the model", None
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"a model is a path, bytes or an onnx.ModelProto, not {type(model).__name__}")
    path = os.fspath(model)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as e:
        raise ModelError(f"cannot read the model {path!r}: {e.strerror}") from e
    return _parse(content, f"the model {path!r}"), f"the model {path!r}", os.path.dirname(os.path.abspath(path))


def _parse(content: bytes, what: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except (DecodeError, RuntimeError) as e:
        raise ModelError(f"{what} is not ONNX, or is damaged: {e}") from e
    # Protobuf takes many a wrong file, the empty one among them, for a message with nothing in it.
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise ModelError(f"{what} is not ONNX, or is damaged: it holds no graph")
    return proto


def _versions(proto: onnx.ModelProto, what: str) -> None:
    if proto.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"{what} has IR version {proto.ir_version}; onnx {onnx.__version__} knows up to {onnx.IR_VERSION}"
        )
    newest = onnx.defs.onnx_opset_version()
    for opset in proto.opset_import:
        if opset.domain in ("", "ai.onnx") and opset.version > newest:
            raise ModelError(
                f"{what} has opset {opset.version}, which is too new: onnx {onnx.__version__} knows up to {newest}"
            )


def _whole(
    proto: onnx.ModelProto,
    what: str,
    folder: str | None,
    dims: Mapping[str, int],
    input_shapes: Mapping[str, tuple[int, ...]],
) -> GraphView:
    _versions(proto, what)
    tensors = {t.name: to_array(t, External(folder)) for t in proto.graph.initializer}
    bare = inference.skeleton(proto, tensors, External(folder))
    inference.check(bare, what)
    if proto.functions:
        bare = inference.inline(bare, what)
    fed = [i for i in proto.graph.input if i.name not in tensors]
    binding = Binding.of(fed, dims, input_shapes)
    inferred = inference.infer(bare, binding)
    reader = _Reader(External(folder), {d.domain: d.version for d in bare.opset_import}, binding)
    graph = bare.graph
    return reader.graph(graph, tensors, [i.name for i in fed], [*proto.graph.value_info, *inferred], proto.ir_version)


# ---------------------------------------------------------------- proto -> view


def _static(info: ValueInfoProto) -> bool:
    shape = info.type.tensor_type.shape
    return info.type.tensor_type.HasField("shape") and all(d.HasField("dim_value") for d in shape.dim)


class _Reader:
    """Turns protos into views; knows where external data lies and which symbols have been fixed."""

    def __init__(self, external: External, opsets: Mapping[str, int], binding: Binding) -> None:
        self.external = external
        self.opsets = {("" if d == "ai.onnx" else d): v for d, v in opsets.items()}
        self.binding = binding

    def graph(
        self,
        graph: onnx.GraphProto,
        tensors: Mapping[str, Array],
        inputs: list[str],
        infos: list[ValueInfoProto],
        ir_version: int,
    ) -> GraphView:
        """`infos` in rising order of trust: a later one wins unless it says less."""
        values: dict[str, ValueView] = {}
        for info in [*graph.output, *infos, *graph.input]:
            known, new = values.get(info.name), self.value(info)
            values[info.name] = new if known is None else _merge(known, new)
        for name, data in tensors.items():
            values[name] = ValueView(name, data.dtype, data.shape, data)
        nodes = tuple(self.node(i, n, ir_version) for i, n in enumerate(graph.node))
        for node in nodes:
            for name in (*node.inputs, *node.outputs):
                if name and name not in values:
                    values[name] = ValueView(name, kind="unknown")
        view = GraphView(
            graph.name, nodes, tuple(inputs), tuple(o.name for o in graph.output), values, self.opsets, ir_version
        )
        for name in view.outer:
            v = values.get(name, ValueView(name, kind="unknown"))
            values[name] = ValueView(v.name, v.dtype, v.shape, v.data, True, v.kind)
        return view

    def value(self, info: ValueInfoProto) -> ValueView:
        kind = info.type.WhichOneof("value")
        if kind is None:
            return ValueView(info.name, kind="unknown")
        if kind != "tensor_type":
            return ValueView(info.name, kind=kind.removesuffix("_type"))
        tensor = info.type.tensor_type
        shape = self.binding.shape(info.name, tensor.shape) if tensor.HasField("shape") else None
        return ValueView(info.name, numpy_dtype(tensor.elem_type), shape)

    def node(self, index: int, node: onnx.NodeProto, ir_version: int) -> NodeView:
        domain = "" if node.domain == "ai.onnx" else node.domain
        attributes = {a.name: self.attribute(a, ir_version) for a in node.attribute}
        return NodeView(
            index,
            node.name,
            node.op_type,
            domain,
            self.opsets.get(domain, 0),
            tuple(node.input),
            tuple(node.output),
            attributes,
        )

    def attribute(self, a: AttributeProto, ir_version: int) -> Any:
        """The attribute as a Python value. Text that is not UTF-8 stays bytes."""
        match a.type:
            case AttributeProto.FLOAT:
                return float(a.f)
            case AttributeProto.INT:
                return int(a.i)
            case AttributeProto.STRING:
                return _text(a.s)
            case AttributeProto.FLOATS:
                return tuple(float(v) for v in a.floats)
            case AttributeProto.INTS:
                return tuple(int(v) for v in a.ints)
            case AttributeProto.STRINGS:
                return tuple(_text(v) for v in a.strings)
            case AttributeProto.TENSOR:
                return to_array(a.t, self.external)
            case AttributeProto.TENSORS:
                return tuple(to_array(t, self.external) for t in a.tensors)
            case AttributeProto.GRAPH:
                return self.body(a.g, ir_version)
            case AttributeProto.GRAPHS:
                return tuple(self.body(g, ir_version) for g in a.graphs)
            case AttributeProto.SPARSE_TENSOR:
                return _dense(a.sparse_tensor, self.external)
            case _:
                return a  # type protos and sparse lists: no handler takes them, so the node is refused by name

    def body(self, graph: onnx.GraphProto, ir_version: int) -> GraphView:
        tensors = {t.name: to_array(t, self.external) for t in graph.initializer}
        inputs = [i.name for i in graph.input if i.name not in tensors]
        return self.graph(graph, tensors, inputs, list(graph.value_info), ir_version)


def _merge(old: ValueView, new: ValueView) -> ValueView:
    """The newer knowledge, completed by the older where it says less."""
    if new.kind != "tensor":
        return old if new.kind == "unknown" else new
    shape = new.shape if new.shape is not None else old.shape
    if new.shape is not None and old.shape is not None and len(new.shape) == len(old.shape):
        shape = tuple(
            n if isinstance(n, int) or not isinstance(o, int) else o for n, o in zip(new.shape, old.shape, strict=True)
        )
    return ValueView(new.name, new.dtype if new.dtype is not None else old.dtype, shape)


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def _dense(sparse: onnx.SparseTensorProto, external: External) -> Array:
    values, indices = to_array(sparse.values, external), to_array(sparse.indices, external)
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return dense


def tensors_below(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    """Every tensor of a graph, bodies included (for tests and statistics)."""
    yield from graph.initializer
    for node in graph.node:
        for a in node.attribute:
            if a.type == AttributeProto.TENSOR:
                yield a.t
            elif a.type == AttributeProto.GRAPH:
                yield from tensors_below(a.g)
