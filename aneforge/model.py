"""The strict road: a whole model as one program, or an exception that says why not.

    net = load_onnx("resnet18.onnx")
    y = net(x)

Also the lazy graph of a model (`onnx_to_tensor`, `onnx_to_features`), and `compile` for graphs written by hand.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import backends, ops, passes, pipeline
from .errors import (
    AneforgeError,
    DispatchFloorWarning,
    InternalError,
    PrecisionWarning,
    Reason,
    RefusedNode,
    UnsupportedModelError,
)
from .ir import Program, Tensor, const, substitute
from .ops import builders
from .options import TABLE, Options
from .pipeline import Compiled
from .runnable import Model, Port, Result
from .targets import resolve

if TYPE_CHECKING:
    from onnx import ModelProto

    from .onnx.importer import Imported

    Source = str | os.PathLike[str] | bytes | ModelProto

Shapes = Mapping[str, Sequence[int]]

# Keywords of ANEForge 0.4.0's compile that are no options here, with the value that asks for nothing.
_LATER = {"build_dir": None}
FLOOR_BOUND = 1.5
"""Up to this many times the fixed cost of a call, a program is bound by it."""
# Options that say how a session is divided; a program that is whole or refused has no use for them.
_SESSION_ONLY = ("partition", "min_nodes", "report")


# ---------------------------------------------------------------- ONNX


def load_onnx(
    path: Source,
    fuse_attention: bool = False,
    approx_resize: bool = False,
    input_shapes: Shapes | None = None,
    dims: Mapping[str, int] | None = None,
    validate: bool = False,
    **compile_options: object,
) -> Model:
    """Compiles a whole ONNX model for the engine, or raises.

    Args:
        path: a file name, the bytes of a file, or an onnx.ModelProto, which is not changed.
        fuse_attention: emit the engine's attention where the target has it.
        approx_resize: use the engine's own bilinear where ONNX asks for another sampling.
        input_shapes: fixed shapes of inputs, {"x": (1, 3, 224, 224)}.
        dims: extents for symbolic dimensions, {"batch": 1}.
        validate, compile_options: as for `compile`.

    Raises:
        ModelError: the model cannot be read, or is not valid.
        DynamicShapeError: an input's extent is not fixed; the text shows the call that fixes it.
        UnsupportedModelError: some nodes have no engine form; it lists every one with its reason.
        OptionError, NotImplementedError: an option that does not exist, or has no effect yet.
        BackendUnavailableError: the engine or backend asked for is not here.
        CompileError: the backend did not take the program.
    """
    options = strict_options(compile_options, fuse_attention=fuse_attention, approx_resize=approx_resize)
    backends.choose(options)
    imported = strict_import(path, options, input_shapes, dims)
    view = imported.view
    inputs = [_port(imported, name) for name in view.inputs]
    constants = imported.known_outputs()
    for name in view.outputs:
        value = imported.values[name]
        if isinstance(value, Tensor) and value.is_const:
            constants[name] = value.value.astype(imported.dtypes[name])
    repeats = _repeats(imported)

    def region() -> Program | None:
        computed = [n for n in dict.fromkeys(view.outputs) if n not in constants and n not in repeats]
        return imported.region(range(len(view.nodes)), view.inputs, computed) if computed else None

    program = region()
    if program and (fixed := _in_advance(program, options, imported)):
        constants |= {name: array.astype(imported.dtypes[name]) for name, array in fixed.items()}
        program = region()
    computed = [name for name, _ in program.outputs] if program else []
    results = []
    for name in view.outputs:
        if name in constants:
            array = constants[name]
            results.append(Result(Port(name, array.dtype, array.shape), constant=array))
        elif name in repeats:
            results.append(Result(_port(imported, name), of_input=repeats[name]))
        else:
            results.append(Result(_port(imported, name), of_program=computed.index(name)))
    compiled = None
    if program:
        compiled = _compile(program, options, imported)
        _warn(compiled, options, validate, imported)
    return Model(compiled, inputs, results, options)


def onnx_to_tensor(
    path: Source,
    approx_resize: bool = False,
    input_shapes: Shapes | None = None,
    dims: Mapping[str, int] | None = None,
) -> tuple[list[Tensor], Tensor | list[Tensor]]:
    """The lazy graph of a model: its inputs, and its output (a list if there are several), to splice and compile.

    Bools are floats 0 and 1 here. Raises as `load_onnx` does.
    """
    imported = strict_import(path, Options(approx_resize=approx_resize), input_shapes, dims)
    inputs, outputs = _graph(imported, list(imported.view.outputs))
    return inputs, outputs[0] if len(outputs) == 1 else outputs


def onnx_to_features(
    path: Source,
    approx_resize: bool = False,
    input_shapes: Shapes | None = None,
    dims: Mapping[str, int] | None = None,
) -> tuple[list[Tensor], Tensor]:
    """The lazy graph of a model up to the input of its final linear layer: what a classifier knows before it decides.

    Looks through a final Softmax and through what only changes the shape. Raises as `load_onnx` does, and:

    Raises:
        ValueError: no linear layer ends the model.
    """
    imported = strict_import(path, Options(approx_resize=approx_resize), input_shapes, dims)
    inputs, outputs = _graph(imported, [_penultimate(imported)])
    return inputs, outputs[0]


def strict_import(
    path: Source, options: Options, input_shapes: Shapes | None, dims: Mapping[str, int] | None
) -> Imported:
    """The import of a model without a refused node, or an exception."""
    from .onnx.importer import import_graph  # noqa: PLC0415 - imports onnx, which graphs by hand do not need
    from .onnx.view import from_model  # noqa: PLC0415

    shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
    imported = import_graph(from_model(path, dims, shapes), options, resolve(options.target), passes.check_node)
    imported.check()
    return imported


def _port(imported: Imported, name: str) -> Port:
    value, dtype = imported.values[name], imported.dtypes[name]
    if value is None or dtype is None:
        raise InternalError(f"{name!r} crosses into the program, but its type is not known")
    return Port(name, dtype, value.shape)


def _repeats(imported: Imported) -> dict[str, int]:
    """Outputs that are an input as it came -> its position. They need no engine, and lose no precision."""
    view = imported.view
    given = {id(imported.values[name]): i for i, name in reversed(list(enumerate(view.inputs)))}
    found = {}
    for name in view.outputs:
        place = given.get(id(imported.values[name]))
        if place is not None and imported.dtypes[name] == imported.dtypes[view.inputs[place]]:
            found[name] = place
    return found


def _compile(program: Program, options: Options, imported: Imported | None = None) -> Compiled:
    with refusals(imported):
        return pipeline.compile_program(program, options, resolve(options.target))


def _in_advance(program: Program, options: Options, imported: Imported | None = None) -> dict[str, NDArray[np.float32]]:
    with refusals(imported):
        return pipeline.in_advance(program, resolve(options.target))


@contextmanager
def refusals(imported: Imported | None = None) -> Iterator[None]:
    """What lowering and compiling raise, in terms of the model's nodes: UnsupportedModelError, or InternalError."""
    try:
        yield
    except passes.LegalizeError as error:
        refused = []
        for violation in error.violations:
            origins = sorted(o for o in violation.origins if isinstance(o, int))
            nodes = [imported.nodes[i] for i in origins] if imported else []
            reason = Reason(violation.why.kind, f"{violation.what}: {violation.why}")
            refused += [RefusedNode(n.name, n.op, n.domain, reason) for n in nodes]
            if not nodes:
                refused.append(RefusedNode("", violation.op.kind, "MIL", reason))
        raise UnsupportedModelError(list(dict.fromkeys(refused))) from error
    except AneforgeError:
        raise
    except Exception as error:
        raise InternalError(f"{type(error).__name__} while the program was compiled: {error}") from error


def _graph(imported: Imported, names: list[str]) -> tuple[list[Tensor], list[Tensor]]:
    """Fresh inputs, made in the model's order (`compile` takes them in that order), and the named values on them."""
    known = {name: v for name in names if isinstance(v := imported.values[name], np.ndarray)}
    found = {name: const(v if v.dtype.kind == "f" else v.astype(np.float32)) for name, v in known.items()}
    computed = [name for name in dict.fromkeys(names) if name not in known]
    if not computed:
        return [], [found[name] for name in names]
    program = imported.region(range(len(imported.nodes)), imported.view.inputs, computed)
    inputs = [builders.input(tensor.shape, tensor.dtype, name=name) for name, tensor in program.inputs]
    mapping = {old: new for (_, old), new in zip(program.inputs, inputs, strict=True)}
    moved = substitute([tensor for _, tensor in program.outputs], mapping)
    found |= dict(zip(computed, moved, strict=True))
    return inputs, [found[name] for name in names]


_RESHAPING = {"Identity", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Cast"}


def _penultimate(imported: Imported) -> str:
    view = imported.view
    maker = {name: node for node in view.nodes for name in node.outputs}

    def known(name: str) -> bool:
        return isinstance(imported.values.get(name), np.ndarray)

    name, linear = view.outputs[0], "no node"
    while (node := maker.get(name)) is not None and not known(name):
        linear = f"{node.op} (node {node.name!r})"
        if node.domain == "" and node.op in (*_RESHAPING, "Softmax", "LogSoftmax"):
            name = node.inputs[0]
        elif node.domain == "" and node.op == "Add" and sum(map(known, node.inputs)) == 1:
            name = next(n for n in node.inputs if not known(n))  # a bias
        elif node.domain == "" and node.op in ("Gemm", "MatMul") and known(node.inputs[1]):
            return node.inputs[0]
        else:
            break
    raise ValueError(f"the model does not end in a linear layer with a known weight: {linear} makes its output")


# ---------------------------------------------------------------- by hand


def compile(
    out: Tensor | Sequence[Tensor],
    int8: bool = False,
    build_dir: str | None = None,
    opt: str | int = "routes",
    compress: str | None = None,
    compress_atol: float = 0.05,
    block_size: int = 32,
    validate: bool = False,
    target: str | int | None = None,
    **options: object,
) -> Model:
    """Compiles a graph written by hand: `out`, or several outputs, from the inputs that they need.

    The Model takes arrays in the order in which the inputs were made, and returns float32.

    Args:
        opt: "routes" (default), 0 for none, or names of rules to switch off ("-gelu").
        target: a chip ("m1" … "m5"), one of the compiler's strings, or a family number (2 … 5); None: auto.
        validate: raise what would be a PrecisionWarning: values that may be lost in fp16 (see `aneforge check` for a
            run with real inputs).
        options: the other options of the provider (backend, numerics, on_overflow, …).
        int8: the same as compress="int8".
        compress: pack weights as "int8", "int4", "sparse", "blockwise", or "auto": the smallest that the target streams.
        compress_atol: a weight whose relative L2 error would be larger stays fp16.
        block_size: weights that share a scale, for "blockwise".
        build_dir: not effective yet; any other than the default is a NotImplementedError.

    Raises:
        ValueError: with `validate`, see there.
        TypeError: `out` is not made of Tensors.
        OptionError, NotImplementedError: an option that does not exist, or has no effect yet.
        UnsupportedModelError: an operation outside the target's vocabulary or limits.
        BackendUnavailableError, CompileError: see `load_onnx`.
    """
    given = {
        "int8": int8, "build_dir": build_dir, "opt": opt, "compress": compress, "compress_atol": compress_atol,
        "block_size": block_size, "target": target,
    }  # fmt: skip
    chosen = strict_options({**given, **options})
    for name in ("dims", "input_shapes"):
        if getattr(chosen, name):
            raise ValueError(f"option {name!r} is for ONNX models; a graph written by hand has fixed shapes")
    wanted = (out,) if isinstance(out, Tensor) else tuple(out)
    if not wanted or not all(isinstance(tensor, Tensor) for tensor in wanted):
        raise TypeError("compile takes a Tensor, or a sequence of them")
    backends.choose(chosen)
    wanted = tuple(ops.as_mask(tensor) if tensor.dtype == "bool" else tensor for tensor in wanted)
    float32: np.dtype[Any] = np.dtype(np.float32)
    constants = {tensor: tensor.value.astype(np.float32) for tensor in wanted if tensor.is_const}
    computed = [tensor for tensor in dict.fromkeys(wanted) if tensor not in constants]
    if computed:
        names = [f"y{i}" for i in range(len(computed))]
        fixed = _in_advance(builders.program(computed), chosen)
        constants |= {tensor: fixed[name] for name, tensor in zip(names, computed, strict=True) if name in fixed}
        computed = [tensor for tensor in computed if tensor not in constants]
    results = []
    for i, tensor in enumerate(wanted):
        port = Port(f"y{i}", float32, tensor.shape)
        if tensor in constants:
            results.append(Result(port, constant=constants[tensor]))
        else:
            results.append(Result(port, of_program=computed.index(tensor)))
    if not computed:
        return Model(None, [], results, chosen)
    program = builders.program(computed)
    dtypes: dict[str, np.dtype[Any]] = {"fp16": float32, "uint8": np.dtype(np.uint8)}
    inputs = [Port(name, dtypes[tensor.dtype], tensor.shape) for name, tensor in program.inputs]
    compiled = _compile(program, chosen)
    _warn(compiled, chosen, validate)
    return Model(compiled, inputs, results, chosen)


def _warn(compiled: Compiled, options: Options, validate: bool, imported: Imported | None = None) -> None:
    """Says what may be lost in fp16, or raises it; and that a program for the engine is too small to be worth a call."""
    told = []
    for risk in compiled.risks[:3]:
        nodes = [imported.nodes[i] for i in sorted(i for i in risk.origins if isinstance(i, int))] if imported else []
        where = " + ".join(f"{n.op} {n.name!r}" for n in nodes)
        told.append(f"{where}: {risk.text}" if where else risk.text)
    if told:
        more = f"; and {len(compiled.risks) - 3} more" if len(compiled.risks) > 3 else ""
        text = f"results may be inaccurate in fp16 for some inputs: {'; '.join(told)}{more}"
        if validate:
            compiled.executable.release()
            raise ValueError(text)
        warnings.warn(text, PrecisionWarning, stacklevel=3)
    floor = resolve(options.target).cost.floor_us
    if compiled.executable.word == backends.ANE and compiled.estimate_us <= FLOOR_BOUND * floor:
        warnings.warn(
            f"one run is estimated at {compiled.estimate_us:.0f} us, and {floor:.0f} us of that are the fixed cost of a "
            "call: a larger batch or a longer program costs next to nothing more",
            DispatchFloorWarning,
            stacklevel=3,
        )


def strict_options(given: Mapping[str, object], **more: object) -> Options:
    """The options among the keywords of `compile` and `load_onnx`. Nothing is ignored: see `compile`."""
    words = dict(given)
    for name, nothing in _LATER.items():
        if words.pop(name, nothing) != nothing:
            raise NotImplementedError(f"option {name!r} is not effective in this release")
    for name in _SESSION_ONLY:
        if name in words:
            raise ValueError(f"option {name!r} is for sessions, where a model is divided; here it stays whole")
    if not words.pop("strict", True):
        raise ValueError("option 'strict': this road is always strict; a session takes models in parts")
    if words.get("target") is None:
        words.pop("target", None)
    if words.pop("int8", False):  # ANEForge 0.4.0's other word for it
        if words.get("compress") not in (None, False, "none", "int8"):
            raise ValueError(f"int8=True and compress={words['compress']!r} ask for two encodings")
        words["compress"] = "int8"
    options = Options.parse({**words, **{name: value for name, value in more.items() if value is not False}})
    pipeline.check_effective(options)
    return options


assert not set(_LATER) & set(TABLE), "a keyword of the table is effective, or says itself that it is not"
