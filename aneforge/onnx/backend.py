"""ONNX's own door to a runtime, `onnx.backend.base.Backend`: what its test suite and tools of the ecosystem ask for.

    import aneforge.onnx.backend as backend
    outputs = backend.prepare(model).run([x])

It is the strict road: the whole model as one program, or the exception that names what stands in the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, checker, helper, numpy_helper, shape_inference
from onnx.backend.base import Backend, BackendRep

from ..errors import AneforgeError
from ..model import load_onnx
from ..runnable import Model
from .inference import newest_opset
from .tensors import Array

_KNOWN_IR = 10  # from ONNX 1.16 on; every runtime of today reads it


class AneforgeRep(BackendRep):
    """A compiled model."""

    def __init__(self, net: Model) -> None:
        self.net = net

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Array, ...]:
        """Runs the model.

        Args:
            inputs: arrays in the order of the model's inputs, a mapping from names, or a single array.
            kwargs: none; any is a TypeError.

        Raises:
            TypeError, ValueError: as `Model` raises them.
        """
        if kwargs:
            raise TypeError(f"run takes no options, not {', '.join(kwargs)}; they go to prepare")
        if isinstance(inputs, Mapping):
            return tuple(self.net.run(inputs).values())
        given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        made = self.net(*map(np.asarray, given))
        return tuple(made) if isinstance(made, list) else (made,)


class AneforgeBackend(Backend):
    """Compiles models strictly. `kwargs` of its methods are the options of `load_onnx` (numerics, target, dims, …)."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """ "CPU" only: the suite knows no word for a neural engine."""
        return device.partition(":")[0] == "CPU"

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the whole model has an engine form."""
        try:
            cls.prepare(model, device, **kwargs).net.release()
        except (AneforgeError, NotImplementedError):
            return False
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> AneforgeRep:
        """Compiles a model. Raises as `load_onnx` does, and ValueError for another device than "CPU"."""
        if not cls.supports_device(device):
            raise ValueError(f"device {device!r}: there is 'CPU'; where a program runs is the option 'backend'")
        return AneforgeRep(load_onnx(model, **kwargs))

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Array, ...]:
        """`prepare`, `run`, and release."""
        rep = cls.prepare(model, device, **kwargs)
        with rep.net:
            return rep.run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Array, ...]:
        """Runs one node. Inputs that are neither floats nor bools are constants of the model that is made of it.

        Args:
            inputs: arrays in the order of the node's inputs (None: absent), or a mapping from names.
            outputs_info: dtype and shape of each output; inferred where it is not given.
            kwargs: `opset_version` (the newest that onnx knows), and options of `load_onnx`.
        """
        opset = int(kwargs.pop("opset_version", newest_opset()))
        names = list(node.input)
        given = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=False))
        arrays = {name: np.asarray(given[name]) for name in names if name and given.get(name) is not None}
        fed = {name: a for name, a in arrays.items() if a.dtype.kind in "fb"}
        infos = [_info(name, a.dtype, a.shape) for name, a in fed.items()]
        if outputs_info is None:
            outs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        else:
            told = zip(node.output, outputs_info, strict=True)
            outs = [_info(name, np.dtype(dtype), shape) for name, (dtype, shape) in told if name]
        held = [numpy_helper.from_array(a, name) for name, a in arrays.items() if name not in fed]
        opsets = [helper.make_opsetid("", opset)]
        if node.domain not in ("", "ai.onnx"):
            opsets.append(helper.make_opsetid(node.domain, 1))
        else:
            context = checker.C.CheckerContext()
            context.ir_version, context.opset_imports = _KNOWN_IR, {"": opset}
            checker.check_node(node, context)
        graph = helper.make_graph([node], "node", infos, outs, held)
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_KNOWN_IR)
        if outputs_info is None:
            model = shape_inference.infer_shapes(model)
        return cls.run_model(model, fed, device, **kwargs)


def _info(name: str, dtype: np.dtype[Any], shape: Sequence[int]) -> ValueInfoProto:
    kind: TensorProto.DataType = helper.np_dtype_to_tensor_dtype(dtype)
    return helper.make_tensor_value_info(name, kind, shape)


is_compatible = AneforgeBackend.is_compatible
prepare = AneforgeBackend.prepare
run_model = AneforgeBackend.run_model
run_node = AneforgeBackend.run_node
supports_device = AneforgeBackend.supports_device
