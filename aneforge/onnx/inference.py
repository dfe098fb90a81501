"""ONNX's own checker, shape inference and function inlining, on a copy of the model that holds no large tensor.

What comes out is a hint: the importer's type rules win on a difference, because inferred shapes can be wrong
(MaxPool with ceil_mode before opset 22, for one).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.inliner
import onnx.shape_inference
from onnx import AttributeProto, ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

from ..errors import ModelError
from .dims import Binding, read_shape
from .tensors import Array, External, numpy_dtype, to_array

_SMALL = 1024  # elements; more is no shape arithmetic, and inference never looks at it


def skeleton(model: ModelProto, tensors: Mapping[str, Array], external: External) -> ModelProto:
    """A copy in which every large tensor of the main graph is a typed input instead, and no tensor is external.

    `tensors`: the values of the main graph's initializers; `external`: where those of bodies lie."""
    out = ModelProto(ir_version=max(model.ir_version, 4), producer_name=model.producer_name)
    out.opset_import.extend(model.opset_import)
    out.functions.extend(model.functions)
    graph, listed = out.graph, {i.name for i in model.graph.input}
    graph.name = model.graph.name or "graph"
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    for tensor in model.graph.initializer:
        data = tensors.get(tensor.name)
        if data is not None and data.size <= _SMALL and tensor.data_location != TensorProto.EXTERNAL:
            graph.initializer.add().CopyFrom(tensor)
        elif data is not None and data.size <= _SMALL and data.dtype != np.dtype(object):
            graph.initializer.append(
                numpy_helper.from_array(np.ascontiguousarray(data).reshape(data.shape), tensor.name)
            )
        elif tensor.name not in listed:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    graph.node.extend(model.graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            _internalize(attribute, external)
            if node.op_type == "Einsum" and not _EQUATION.fullmatch(attribute.s):
                # onnx's own inference (1.23) never comes back from some of these
                raise ModelError(f"Einsum (node {node.name!r}) has the equation {attribute.s!r}, which is none")
            if node.op_type == "GatherND" and attribute.name == "batch_dims" and attribute.i < 0:
                # onnx's own inference (1.23) reads outside its memory
                raise ModelError(f"GatherND (node {node.name!r}) has batch_dims = {attribute.i}")
    return out


_TERM = rb"[A-Za-z\s]*(\.\.\.[A-Za-z\s]*)?"
_EQUATION = re.compile(_TERM + rb"(," + _TERM + rb")*(->" + _TERM + rb")?")


def _internalize(attribute: AttributeProto, external: External) -> None:
    """Reads the external tensors below an attribute into it."""
    for tensor in (attribute.t, *attribute.tensors):
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.CopyFrom(numpy_helper.from_array(to_array(tensor, external), tensor.name))
    for graph in (attribute.g, *attribute.graphs):
        for tensor in graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL:
                tensor.CopyFrom(numpy_helper.from_array(to_array(tensor, external), tensor.name))
        for node in graph.node:
            for below in node.attribute:
                _internalize(below, external)


_OF_RUNTIME = frozenset({"LayerNormalization", "SimplifiedLayerNormalization"})


def _opset(model: ModelProto) -> int:
    return next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)


def check(bare: ModelProto, what: str) -> None:
    """ONNX's checker.

    Raises:
        ModelError: the model is not valid.
    """
    model = ModelProto()
    model.CopyFrom(bare)
    # ONNX Runtime's optimizer saves operators of its own in the domain of ONNX.
    for node in model.graph.node:
        ours = node.op_type in _OF_RUNTIME and node.domain in ("", "ai.onnx")
        if ours and since(node.op_type, "", _opset(model)) is None:
            node.domain = "com.microsoft"
    if all(o.domain != "com.microsoft" for o in model.opset_import):
        model.opset_import.add(domain="com.microsoft", version=1)
    # The checker insists on shapes of outputs, which files need not state and runtimes do not ask for.
    for output in model.graph.output:
        if output.type.HasField("tensor_type") and not output.type.tensor_type.HasField("shape"):
            output.type.tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as e:
        text = " ".join(str(e).split())
        raise ModelError(f"{what} is not valid ONNX: {text}") from e


def inline(bare: ModelProto, what: str) -> ModelProto:
    """The model with the functions that it carries expanded in place.

    Raises:
        ModelError: a function cannot be expanded.
    """
    try:
        return onnx.inliner.inline_local_functions(bare)
    except Exception as e:  # the C++ inliner has no exception type of its own
        raise ModelError(f"{what}: a model function cannot be expanded: {e}") from e


def infer(bare: ModelProto, binding: Binding) -> list[ValueInfoProto]:
    """Types and shapes of values, for inputs of the bound shapes. Empty when inference gives up."""
    model = ModelProto()
    model.CopyFrom(bare)
    for info in model.graph.input:
        if info.type.HasField("tensor_type") and (
            info.type.tensor_type.HasField("shape") or info.name in binding.inputs
        ):
            shape = binding.shape(info.name, info.type.tensor_type.shape)
            fixed = helper.make_tensor_type_proto(info.type.tensor_type.elem_type, shape)
            info.type.CopyFrom(fixed)
    for output in model.graph.output:  # what the file claims must not stand in the way of what follows from its inputs
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    try:
        done = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # a hint that cannot be had; the checker has spoken already, and our own type rules come
        return []
    return [*done.graph.value_info, *done.graph.output]


def newest_opset() -> int:
    """The newest opset of ai.onnx that the installed onnx knows."""
    return int(onnx.defs.onnx_opset_version())


@cache
def schema(op: str, version: int, domain: str) -> Any:
    """onnx's schema of an operator for a model's opset; None when onnx does not know it."""
    try:
        return onnx.defs.get_schema(op, version, domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: a version that is no C int, a name that is no text
        return None


def since(op: str, domain: str, version: int) -> int | None:
    """The version of the operator that a model with this opset means; None when onnx does not know the operator.

    A version newer than the installed onnx cannot be told from the newest that it knows, so None as well."""
    if domain == "" and version > newest_opset():
        return None
    found = schema(op, version, domain)
    return None if found is None else int(found.since_version)


def input_name(op: str, domain: str, version: int, position: int) -> str:
    """What the operator's text calls an input; "" where onnx does not know the operator."""
    found = schema(op, version, domain)
    if found is None or not found.inputs:
        return ""
    return str(found.inputs[min(position, len(found.inputs) - 1)].name)


def newest(op: str, domain: str = "") -> int | None:
    """The newest version of an operator that the installed onnx knows."""
    return since(op, domain, newest_opset()) if domain == "" else None


def infer_node(
    op: str,
    domain: str,
    version: int,
    attributes: Mapping[str, Any],
    inputs: Sequence[tuple[np.dtype[Any] | None, tuple[int | str | None, ...] | None, Array | None] | None],
    n_outputs: int,
    ir_version: int,
) -> list[tuple[np.dtype[Any] | None, tuple[int | None, ...] | None]] | None:
    """Types of the outputs of one node from the types (and values, where known) of its inputs.

    None: onnx cannot tell, or finds the node invalid."""
    known = schema(op, version, domain)
    if known is None or any(isinstance(v, AttributeProto) or hasattr(v, "nodes") for v in attributes.values()):
        return None
    names = [f"i{k}" if given is not None else "" for k, given in enumerate(inputs)]
    outs = [f"o{k}" for k in range(n_outputs)]
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, TensorProto] = {}
    try:
        node = helper.make_node(op, names, outs, domain=domain)
        node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes_of(attributes).items())
        for name, given in zip(names, inputs, strict=True):
            if given is None:
                continue
            dtype, shape, value = given
            if dtype is None:
                return None
            types[name] = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype), shape)
            if value is not None and value.size <= _SMALL:
                data[name] = numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)
        opsets = [helper.make_opsetid(domain, version)]
        found = onnx.shape_inference.infer_node_outputs(known, node, types, data, None, opsets, ir_version)
    except Exception:  # the C++ side raises many types; all of them mean the same here
        return None
    result: list[tuple[np.dtype[Any] | None, tuple[int | None, ...] | None]] = []
    for name in outs:
        info = found.get(name)
        if info is None or not info.HasField("tensor_type"):
            result.append((None, None))
            continue
        tensor = info.tensor_type
        shape_ = (
            tuple(d if isinstance(d, int) else None for d in read_shape(tensor.shape))
            if tensor.HasField("shape")
            else None
        )
        result.append((numpy_dtype(tensor.elem_type), shape_))
    return result


def attributes_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a view as values that onnx makes attributes of."""
    return {
        name: numpy_helper.from_array(value)
        if isinstance(value, np.ndarray)
        else list(value)
        if isinstance(value, tuple)
        else value
        for name, value in attributes.items()
    }


def size(shape: Sequence[int]) -> int:
    """Number of elements."""
    return math.prod(shape)
