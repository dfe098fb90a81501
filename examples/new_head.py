"""A new head for a frozen feature extractor: take a classifier apart, fit a linear layer to other classes in numpy, and
compile features and head as one program.

    python examples/new_head.py

The classifier (its weights stand for what somebody trained) knows ten classes of its own. The new task is to tell three
directions of stripes apart; 120 pictures are enough for the head, and nothing of the extractor changes.
"""

from __future__ import annotations

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import aneforge as af

SIZE, DIRECTIONS = 24, (0.0, 60.0, 120.0)
TRAINED, TESTED, RIDGE = 120, 60, 1e-2
MIN_ACCURACY = 0.95


def classifier() -> onnx.ModelProto:
    """Two convolutions, pooling, and a linear layer for ten classes."""
    draw = np.random.default_rng(3)

    def weights(name: str, *shape: int) -> TensorProto:
        fan = float(np.prod(shape[1:]))
        return numpy_helper.from_array((draw.standard_normal(shape) * np.sqrt(2 / fan)).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["c1"], pads=[2, 2, 2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["m1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["m1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["p"]),
        helper.make_node("Flatten", ["p"], ["features"]),
        helper.make_node("Gemm", ["features", "w3"], ["scores"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, SIZE, SIZE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
        [weights("w1", 24, 1, 5, 5), weights("w2", 48, 24, 3, 3), weights("w3", 10, 48)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def pictures(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy stripes [count, 1, SIZE, SIZE], and which of the directions each has."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, len(DIRECTIONS), count)
    angles = np.radians(np.array(DIRECTIONS)[labels] + draw.uniform(-8, 8, count))
    y, x = np.mgrid[:SIZE, :SIZE]
    waves = x * np.cos(angles)[:, None, None] + y * np.sin(angles)[:, None, None]
    phases, lengths = draw.uniform(0, 2 * np.pi, (count, 1, 1)), draw.uniform(4, 6, (count, 1, 1))
    stripes = np.sin(2 * np.pi * waves / lengths + phases) + 0.3 * draw.standard_normal((count, SIZE, SIZE))
    return stripes[:, None].astype(np.float32), labels


def fit(features: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A linear layer (W [classes, features], b) by ridge regression to one column a class."""
    mean, spread = features.mean(0), features.std(0) + 1e-6
    scaled = np.c_[(features - mean) / spread, np.ones(len(features))]
    wanted = np.eye(len(DIRECTIONS))[labels]
    normal = scaled.T @ scaled + RIDGE * len(features) * np.eye(scaled.shape[1])
    solved = np.linalg.solve(normal, scaled.T @ wanted)
    W = solved[:-1].T / spread
    return W, solved[-1] - W @ mean


def main() -> int:
    inputs, features = af.onnx_to_features(classifier())
    print(f"the classifier up to its last layer: {inputs[0].shape} -> {features.shape}")

    images, labels = pictures(TRAINED, seed=1)
    with af.compile(features) as extractor:
        known = np.concatenate([extractor(image[None]) for image in images])
    W, b = fit(known.astype(np.float64), labels)

    net = af.compile(features.linear(W, b).softmax(-1))
    print(f"features and new head as one program: {net}")
    images, labels = pictures(TESTED, seed=2)
    answers = np.array([net(image[None])[0].argmax() for image in images])
    right = float((answers == labels).mean())
    print(f"{right:.1%} of {TESTED} new pictures are right ({net.backend})")
    return 0 if right >= MIN_ACCURACY else 3


if __name__ == "__main__":
    sys.exit(main())
