"""Runs ONNX models, and graphs written by hand, on the Apple Neural Engine.

    import aneforge as af
    net = af.load_onnx("resnet18.onnx")                                   # all of it, or an exception that says why not
    y = net(x)
    net = af.compile(af.conv(af.input((1, 3, 8, 8)), w, pad=1).relu())    # by hand

`import aneforge.provider` registers the execution provider with ONNX Runtime. Where there is no engine, the host
backend computes the same programs with the engine's arithmetic. Nothing heavy is imported before it is used.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from . import _collision

_collision.check_folder(__path__[0])

__version__ = "0.1.0"
__distribution__ = _collision.OURS

if _TYPE_CHECKING:
    from .errors import (
        AneforgeError,
        BackendUnavailableError,
        CompileError,
        DispatchFloorWarning,
        DynamicShapeError,
        InternalError,
        ModelError,
        OptionError,
        PrecisionWarning,
        Refused,
        UnsupportedModelError,
    )
    from .export import export_onnx
    from .ir import Tensor
    from .model import compile, load_onnx, onnx_to_features, onnx_to_tensor
    from .ops.builders import (
        batch_norm,
        concat,
        conv,
        conv_transpose,
        crop,
        cross_attention,
        depth_to_space,
        dynamic_conv,
        einsum,
        gather,
        geglu,
        image_input,
        input,
        instance_norm,
        local_response_norm,
        maximum,
        mha,
        minimum,
        pad,
        pixel_shuffle,
        pixel_unshuffle,
        resize_bilinear,
        resize_nearest_neighbor,
        sdpa,
        select,
        sort,
        space_to_depth,
        split,
        stack,
        topk,
        upsample_bilinear,
        where,
    )
    from .runnable import Model
    from .verdicts import check

__all__ = [
    "AneforgeError",
    "BackendUnavailableError",
    "CompileError",
    "DispatchFloorWarning",
    "DynamicShapeError",
    "InternalError",
    "Model",
    "ModelError",
    "OptionError",
    "PrecisionWarning",
    "Refused",
    "Tensor",
    "UnsupportedModelError",
    "batch_norm",
    "check",
    "compile",
    "concat",
    "conv",
    "conv_transpose",
    "crop",
    "cross_attention",
    "depth_to_space",
    "dynamic_conv",
    "einsum",
    "export_onnx",
    "gather",
    "geglu",
    "image_input",
    "input",
    "instance_norm",
    "load_onnx",
    "local_response_norm",
    "maximum",
    "mha",
    "minimum",
    "onnx_to_features",
    "onnx_to_tensor",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
    "resize_bilinear",
    "resize_nearest_neighbor",
    "sdpa",
    "select",
    "sort",
    "space_to_depth",
    "split",
    "stack",
    "topk",
    "upsample_bilinear",
    "where",
]

_HOME = {
    **dict.fromkeys((n for n in __all__ if n.endswith(("Error", "Warning")) or n == "Refused"), "errors"),
    "Tensor": "ir",
    "Model": "runnable",
    "export_onnx": "export",
    "check": "verdicts",
    **dict.fromkeys(("compile", "load_onnx", "onnx_to_features", "onnx_to_tensor"), "model"),
}

# What `import aneforge` of ANEForge 0.4.0 offers and this package does not, by reason.
_ELSEWHERE = {
    "training is not a thing of this package": (
        "parameter backward backward_from mse softmax_cross_entropy SGD Adam adam_step Trainer UnrolledTrainer "
        "CheckpointedStack conv2d conv_param conv_block cifar_cnn group_norm_train autograd"
    ),
    "it loads models of one framework or family; export them to ONNX and use load_onnx": (
        "load load_resnet load_resnet18 load_vit load_clip load_gpt2 load_llm load_whisper Encoder Vision ViT GPT2 "
        "CLIP Whisper LlamaConfig LlamaPrefill prefill_block rope rope_tables models llm"
    ),
    "it asks what an engine can do; see `aneforge explain MODEL`, and `aneforge ops` for the operators": (
        "op_info device_status is_native ops_on min_native_family walled_everywhere categories OP_CATALOG"
    ),
    "what fp16 may lose stands in PrecisionWarning, and with real inputs in `aneforge check MODEL`": "precision_risk",
    "estimates stand in the report of a session (`aneforge.provider.report`)": (
        "estimate estimate_provenance project_peak"
    ),
    "nothing is tried out on the engine here; the rewrites are fixed (option 'opt')": (
        "tune tune_precision tune_attention attention_tiles"
    ),
    "rewrites do this by themselves: sums are wide where fp16 would lose them (option 'opt')": (
        "reduce_sum_to_matmul paired paired_subtract Paired"
    ),
    "it is a library of algorithms on top, which works on graphs of its own": "fft linalg special dsp moe",
    "it needs operations of the engine that this package does not use": (
        "affine cross_product cross_correlation cost_volume fps radius_search minmax_norm dynamic_slice "
        "scaled_elementwise input_view einsum_native space_to_channel channel_to_space space_to_batch batch_to_space"
    ),
    "use local_response_norm": "lrn",
    "use reshape or flatten2d": "flatten",
    "no graph is cut into several programs here: compile returns a Model": "SegmentedModel compile_multi MultiModel",
    "nothing here raises it: programs are not cross-compiled and run elsewhere": "CrossChipFP16Warning",
    "nothing here raises it: compilations are not throttled": "CompileBackoffError reset_compile_breaker",
}


def __getattr__(name: str) -> _Any:
    if name in __all__:
        value = getattr(_import_module(f".{_HOME.get(name, 'ops.builders')}", __name__), name)
        globals()[name] = value
        return value
    for reason, names in _ELSEWHERE.items():
        if name in names.split():
            theirs = f"aneforge.{name} is of the distribution 'aneforge' (ANEForge), not of {__distribution__}"
            raise AttributeError(f"{theirs}: {reason}")
    raise AttributeError(f"module 'aneforge' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
