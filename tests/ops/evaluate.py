"""Runs a program of the IR through the numpy definitions of the operations in tests/oracle without text in between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from oracle import mil_reference  # registers the operations
from oracle.registry import OPERATIONS, PARAMETERS

from aneforge.ir import Program, Tensor, topological

assert mil_reference


def program(*outputs: Tensor) -> Program:
    """The program of some tensors whose inputs were named x0, x1, … ."""
    leaves = sorted((op for op in topological(outputs) if op.kind == "input"), key=lambda op: op.params["name"])
    return Program([(op.params["name"], op.outputs[0]) for op in leaves], [(f"y{i}", t) for i, t in enumerate(outputs)])


def run(program: Program, inputs: Mapping[str, np.ndarray], numerics: str = "fp16") -> dict[str, np.ndarray]:
    """Each operation in float64, its result rounded once to fp16 or fp32; constants narrowed as the writer does it."""
    held = {"fp16": np.float16, "fp32": np.float32}[numerics]
    values: dict[Any, np.ndarray] = {}
    guards = {s for op in program.ops if op.kind in ("add", "maximum") for s in op.sources if s.type.size < 10}
    for name, tensor in program.inputs:
        values[tensor] = np.asarray(inputs[name], held if tensor.dtype == "fp16" else tensor.dtype)
        assert values[tensor].shape == tensor.shape
    with np.errstate(all="ignore"):
        for op in program.ops:
            if op.kind == "input":
                continue
            if op.kind == "const":
                values[op.outputs[0]] = _narrow(op.params["value"], held, op.outputs[0] in guards)
                continue
            parameters = PARAMETERS[op.kind]
            given: dict[str, Any] = {}
            for key, operand in op.inputs.items():
                parts = operand if isinstance(operand, tuple) else (operand,)
                arrays = [values[p].astype(np.float64) if values[p].dtype.kind == "f" else values[p] for p in parts]
                given[key] = tuple(arrays) if isinstance(operand, tuple) else arrays[0]
                takes = parameters[key].annotation
                if takes.rank == 0:
                    given[key] = given[key].item()
            for key, value in op.params.items():
                given[key] = np.array(value) if isinstance(value, tuple) else value
                if isinstance(value, float):
                    given[key] = float(_narrow(np.float64(value), held, key == "epsilon"))
            unknown = set(given) - set(parameters)
            assert not unknown, f"{op.kind}: {unknown}"
            results = OPERATIONS[op.kind](**given)
            results = results if isinstance(results, tuple) else (results,)
            for tensor, result in zip(op.outputs, map(np.asarray, results), strict=True):
                assert result.shape == tensor.shape, (op, result.shape, tensor.shape)
                values[tensor] = result.astype(held) if result.dtype.kind == "f" else result
    return {name: values[tensor] for name, tensor in program.outputs}


def _narrow(value: np.ndarray, held: type, guard: bool = False) -> np.ndarray:
    value = np.asarray(value)
    if value.dtype.kind != "f":
        return value
    limit = float(np.finfo(held).max)
    with np.errstate(over="ignore", under="ignore"):
        out = np.where(np.isfinite(value), np.clip(value, -limit, limit), value).astype(held)
    if guard:
        out = np.where((out == 0) & (value != 0), np.copysign(np.finfo(held).smallest_subnormal, value), out)
    return out
