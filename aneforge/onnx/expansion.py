"""Operators without a handler that ONNX itself defines by other operators: the function body of their schema, imported
in place of the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, helper

from ..errors import Refused
from . import folding, inference
from .view import GraphView, NodeView, from_function

if TYPE_CHECKING:
    from .scope import Binding, Scope


def expanded(scope: Scope, view: NodeView) -> list[Binding | None] | None:
    """What the outputs of `view` become when its function is imported in its place. None where ONNX has no function
    for it.

    Raises:
        Refused: a node of the function has no engine form; the sentence names it.
    """
    body = function_of(scope, view)
    if body is None:
        return None
    arguments = [scope.get(name) for name in view.inputs if name]
    try:
        inner = scope.body(body, arguments)
    except Refused as e:
        kind = e.reason.kind if e.reason.kind != "operator" else "no engine form"
        name = f"{view.domain}::{view.op}" if view.domain else view.op
        raise Refused(kind, f"{name} is defined by other operators, and {e.reason.text}") from None
    return [inner.get(name) if name else None for name in _padded(body, view)]


def _padded(body: GraphView, view: NodeView) -> list[str]:
    """The body's outputs at the node's positions, "" where the node wants none."""
    made = iter(body.outputs)
    return [next(made, "") if name else "" for name in view.outputs]


def function_of(scope: Scope, view: NodeView) -> GraphView | None:
    """The function that defines a node, in the opset that it was written for, with the node's attributes put in; its
    inputs are those that the node has. None where there is none.

    Raises:
        Refused: an attribute that the operator does not have.
    """
    schema = inference.schema(view.op, view.version, view.domain)
    if (
        schema is None
        or view.op in folding.SHAPED
        or not (schema.has_function or schema.has_context_dependent_function)
    ):
        return None
    if any(isinstance(v, (AttributeProto, GraphView, bytes)) for v in view.attributes.values()):
        return None
    unknown = [name for name in view.attributes if name not in schema.attributes]
    if unknown:
        raise Refused("attribute form", f"the attribute {unknown[0]!r} has no engine form")
    attributes = {
        name: helper.make_attribute(name, value, attr_type=int(schema.attributes[name].type))
        for name, value in inference.attributes_of(view.attributes).items()
    }
    written = _newest(schema.function_opset_versions, view.version)
    if written is not None:
        found = schema.get_function_with_opset_version(written)
    else:
        written = _newest(schema.context_dependent_function_opset_versions, view.version)
        types = [_type(scope, name) for name in view.inputs]
        if written is None or None in types:
            return None
        node = helper.make_node(view.op, view.inputs, view.outputs, domain=view.domain)
        node.attribute.extend(attributes.values())
        found = schema.get_context_dependent_function_with_opset_version(written, node.SerializeToString(), types)
    if not found:
        return None
    function = FunctionProto.FromString(found)
    defaults = {
        name: a.default_value
        for name, a in schema.attributes.items()
        if a.default_value.type != AttributeProto.UNDEFINED
    }
    graph = _graph(function, view, {**defaults, **attributes})
    # A function of another domain (ai.onnx.preview) may leave out which opset of ai.onnx it means: then the model's.
    opsets = {**scope.view.opsets, **{o.domain: o.version for o in function.opset_import}}
    return from_function(graph, opsets, scope.view.ir_version)


def _newest(versions: Sequence[int], version: int) -> int | None:
    return max((v for v in versions if v <= version), default=None)


def _type(scope: Scope, name: str) -> bytes | None:
    """The serialized type of an input; that of nothing for an absent one; None where it is not known."""
    if not name:
        return b""
    dtype = scope.dtypes.get(name)
    if dtype is None:
        return None
    shape: Sequence[int | str | None] | None = scope.shape(name)
    if shape is None and name in scope.view.values:
        shape = scope.view.values[name].shape
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    serialized: bytes = helper.make_tensor_type_proto(element, shape).SerializeToString()
    return serialized


def _graph(function: FunctionProto, view: NodeView, attributes: Mapping[str, AttributeProto]) -> GraphProto:
    given = dict(zip(function.input, view.inputs, strict=False))
    absent = {name for name in function.input if not given.get(name)}
    graph = GraphProto(name=function.name)
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in function.input if name not in absent)
    wanted = [name for name, out in zip(function.output, view.outputs, strict=False) if out]
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    graph.node.extend(_node(node, absent, attributes) for node in function.node)
    return graph


def _node(node: NodeProto, absent: set[str], attributes: Mapping[str, AttributeProto]) -> NodeProto:
    """A node of the function as a node of a graph: attributes that refer to those of the node around it filled in,
    inputs that it does not have left out."""
    out = NodeProto()
    out.CopyFrom(node)
    out.name = out.name or (node.output[0] if node.output else "")
    out.input[:] = ["" if name in absent else name for name in node.input]
    del out.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            source = attributes.get(attribute.ref_attr_name)
            if source is not None:
                filled = out.attribute.add()
                filled.CopyFrom(source)
                filled.name = attribute.name
            continue
        kept = out.attribute.add()
        kept.CopyFrom(attribute)
        if kept.HasField("g"):
            below = [_node(inner, absent, attributes) for inner in kept.g.node]
            del kept.g.node[:]
            kept.g.node.extend(below)
    return out
