"""`fuse_attention` in a session and strictly: one region either way, the same answer, and a mask is never dropped."""

import numpy as np
import onnx
import pytest

import aneforge as af
import aneforge.provider
from tests.provider.graphs import close, floats, model, node, reference, session

SHAPE = [1, 2, 12, 16]
BIAS = (-0.7 * np.abs(np.arange(12)[:, None] - np.arange(12))).astype(np.float32)


def attention(mask: np.ndarray | None = None) -> onnx.ModelProto:
    """Relu on each side, so that there is something around it that must stay in the region."""
    masked = [] if mask is None else [node("Add", "s mask", "m")]
    nodes = [
        node("Relu", "q", "r"), node("Transpose", "k", "t", perm=[0, 1, 3, 2]), node("MatMul", "r t", "p"),
        node("Div", "p root", "s"), *masked, node("Softmax", "s" if mask is None else "m", "w", axis=-1),
        node("MatMul", "w v", "o"), node("Relu", "o", "y"),
    ]  # fmt: skip
    constants = {"root": np.float32(4.0)} | ({} if mask is None else {"mask": mask})
    return model(nodes, dict.fromkeys("qkv", SHAPE), {"y": SHAPE}, constants)


FEEDS = {name: floats(*SHAPE, seed=i) for i, name in enumerate("qkv")}


@pytest.mark.parametrize(
    "mask", [None, BIAS, np.triu(np.full((12, 12), -np.inf, np.float32), 1)], ids=["no", "bias", "causal"]
)
@pytest.mark.parametrize("fuse", ["0", "1"])
def test_both_roads(mask: np.ndarray | None, fuse: str) -> None:
    made = attention(mask)
    want = reference(made, FEEDS)[0]
    running = session(made, {"fuse_attention": fuse})
    close(running.run(None, FEEDS)[0], want)
    (region,) = aneforge.provider.report(running).regions
    assert ("sdpa" in region.rules) == (fuse == "1" and mask is None)
    near = [n.condition for n in region.rule_notes if n.rule == "sdpa" and n.what == "nearly"]
    assert near == (["its form with a mask was never checked on an engine"] if fuse == "1" and mask is not None else [])
    with af.load_onnx(made, fuse_attention=fuse == "1") as net:
        close(net.run(FEEDS)["y"], want)
