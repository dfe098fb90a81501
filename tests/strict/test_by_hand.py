"""Graphs written by hand, and the lazy graph of a model."""

import numpy as np
import pytest

import aneforge as af
from tests.provider.graphs import close, cnn, floats, model, node, reference

W = floats(4, 3, 3, 3, seed=2) / 5


class TestCompile:
    def test_the_first_example(self) -> None:
        x = floats(1, 3, 8, 8)
        net = af.compile(af.conv(af.input((1, 3, 8, 8)), W, pad=1).relu())
        nodes = [node("Conv", "x w", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "y")]
        same = model(nodes, {"x": [1, 3, 8, 8]}, {"y": [1, 4, 8, 8]}, {"w": W})
        close(net(x), reference(same, {"x": x})[0])

    def test_inputs_in_the_order_of_their_making(self) -> None:
        a, b = af.input((2,)), af.input((2,))
        net = af.compile(b - a * 2.0)
        got = net(np.array([1, 2], np.float32), np.array([10, 20], np.float32))
        assert got.dtype == np.float32
        assert got.tolist() == [8, 16]

    def test_several_outputs(self) -> None:
        x = af.input((2,), name="x")
        net = af.compile([x + 1.0, x * 2.0, x + 1.0])
        got = net(np.array([1, 2], np.float16))
        assert [g.tolist() for g in got] == [[2, 3], [2, 4], [2, 3]]
        assert list(net.run({"x": np.zeros(2)})) == ["y0", "y1", "y2"]

    def test_bool_output(self) -> None:
        got = af.compile(af.input((3,)).greater(0.0))(np.array([-1, 0, 1], np.float32))
        assert got.tolist() == [0, 0, 1]
        assert got.dtype == np.float32

    def test_uint8_port(self) -> None:
        net = af.compile(af.image_input((1, 3, 2, 2), scale=0.5))
        pixels = np.arange(12, dtype=np.uint8).reshape(1, 3, 2, 2)
        assert np.array_equal(net(pixels), pixels * np.float32(0.5))
        with pytest.raises(TypeError, match="uint8"):
            net(pixels.astype(np.float32))

    def test_all_keywords(self) -> None:
        x = af.input((2,))
        af.compile(
            x.relu(), int8=False, build_dir=None, opt="routes", compress=None, compress_atol=0.05, block_size=32,
            validate=False, target="m1", numerics="fp16",
        )  # fmt: skip
        with pytest.raises(NotImplementedError, match="build_dir"):
            af.compile(x.relu(), build_dir="x")
        with pytest.raises(ValueError, match="dims"):
            af.compile(x.relu(), dims={"n": 1})

    @pytest.mark.parametrize("wrong", [3, "x", [], [1], None])
    def test_wrong_things(self, wrong: object) -> None:
        with pytest.raises(TypeError):
            af.compile(wrong)  # type: ignore[arg-type]

    def test_outside_the_targets_limits(self) -> None:
        with pytest.raises(af.UnsupportedModelError):
            af.compile(af.input((1, 1, 1, 70000)) + 1.0, target="m1")


class TestSplicing:
    def test_the_graph_of_a_model(self) -> None:
        inputs, out = af.onnx_to_tensor(cnn())
        assert [t.shape for t in inputs] == [(1, 3, 8, 8)]
        assert isinstance(out, af.Tensor)
        assert out.shape == (1, 5)
        x = floats(1, 3, 8, 8)
        expected = reference(cnn(), {"x": x})[0]
        got = af.compile((out * 2.0 + 1.0).softmax(-1))(x)
        soft = np.exp(expected * 2 - (expected * 2).max())
        close(got, soft / soft.sum())

    def test_inputs_stay_in_the_models_order(self) -> None:
        made = model([node("Sub", "b a", "s"), node("Relu", "s", "y")], {"a": [2], "b": [2]}, {"y": [2]})
        inputs, out = af.onnx_to_tensor(made)
        assert len(inputs) == 2
        got = af.compile(out)(np.array([1, 9], np.float32), np.array([5, 5], np.float32))
        assert got.tolist() == [4, 0]

    def test_several_outputs_come_as_a_list(self) -> None:
        made = model([node("Relu", "x", "y"), node("Exp", "x", "z")], {"x": [2]}, {"y": [2], "z": [2]})
        _, out = af.onnx_to_tensor(made)
        assert isinstance(out, list)
        assert [t.shape for t in out] == [(2,), (2,)]

    def test_dims_and_shapes(self) -> None:
        made = model([node("Relu", "x", "y")], {"x": ["n", 3]}, {"y": ["n", 3]})
        assert af.onnx_to_tensor(made, dims={"n": 4})[0][0].shape == (4, 3)
        assert af.onnx_to_tensor(made, input_shapes={"x": (5, 3)})[0][0].shape == (5, 3)


class TestFeatures:
    HEADS = (
        ([node("Gemm", "f w b", "y", transB=1)], [5, 8]),
        ([node("Gemm", "f w", "g", transB=1), node("Softmax", "g", "y")], [5, 8]),
        ([node("MatMul", "f w", "m"), node("Add", "m b", "a"), node("Softmax", "a", "y", axis=-1)], [8, 5]),
        ([node("MatMul", "f w", "m"), node("Add", "b m", "a"), node("LogSoftmax", "a", "y")], [8, 5]),
        ([node("Gemm", "f w", "g", transB=1), node("Flatten", "g", "l"), node("Identity", "l", "y")], [5, 8]),
    )

    @pytest.mark.parametrize(("head", "shape"), HEADS)
    def test_looks_through_the_end(self, head: list[object], shape: list[int]) -> None:
        body = [node("Relu", "x", "r"), node("Exp", "r", "f")]
        constants = {"w": floats(*shape), "b": floats(5)}
        made = model([*body, *head], {"x": [2, 8]}, {"y": [2, 5]}, constants)  # type: ignore[list-item]
        inputs, features = af.onnx_to_features(made)
        assert features.shape == (2, 8)
        x = floats(2, 8, seed=3)
        close(af.compile(features)(x), np.exp(np.maximum(x, 0)))
        assert [t.shape for t in inputs] == [(2, 8)]

    def test_no_linear_layer(self) -> None:
        made = model([node("Exp", "x", "e"), node("Relu", "e", "y")], {"x": [2, 8]}, {"y": [2, 8]})
        with pytest.raises(ValueError, match=r"does not end in a linear layer.*Relu \(node 'n_y'\)"):
            af.onnx_to_features(made)

    def test_a_product_of_two_computed_values_is_no_layer(self) -> None:
        made = model([node("MatMul", "a b", "y")], {"a": [2, 3], "b": [3, 2]}, {"y": [2, 2]})
        with pytest.raises(ValueError, match="linear layer"):
            af.onnx_to_features(made)
