"""`load_onnx` and the Model that it returns: the rules of calling, and what it refuses."""

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest

import aneforge as af
from aneforge import backends, ir, passes, pipeline
from aneforge.errors import Reason
from tests.provider.graphs import close, cnn, floats, model, node, reference

X = floats(1, 3, 8, 8, seed=7)


def two_outputs() -> onnx.ModelProto:
    return model(
        [node("Add", "a b", "s"), node("Greater", "a b", "g"), node("Exp", "s", "e")],
        {"a": [2, 3], "b": [2, 3]},
        {"e": [2, 3], "g": [2, 3], "s": [2, 3]},
        types={"g": 9},
    )


class TestCalling:
    def test_one_output_comes_bare(self) -> None:
        net = af.load_onnx(cnn())
        y = net(X)
        assert isinstance(y, np.ndarray)
        close(y, reference(cnn(), {"x": X})[0])
        assert net.n_ops > 0
        assert net.backend == "host emulation"

    def test_several_come_as_a_list_in_the_models_dtypes(self) -> None:
        net = af.load_onnx(two_outputs())
        a, b = floats(2, 3), floats(2, 3, seed=1)
        got = net(a, b)
        assert isinstance(got, list)
        for g, e in zip(got, reference(two_outputs(), {"a": a, "b": b}), strict=True):
            if e.dtype == bool:
                assert g.dtype == bool
                assert np.array_equal(g, e)
            else:
                close(g, e)

    def test_by_name(self) -> None:
        net = af.load_onnx(two_outputs())
        a, b = floats(2, 3), floats(2, 3, seed=1)
        named = net.run({"b": b, "a": a})
        assert list(named) == ["e", "g", "s"]
        assert all(np.array_equal(x, y) for x, y in zip(named.values(), net(a, b), strict=True))

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, ">f4"])
    def test_any_float(self, dtype: object) -> None:
        got = af.load_onnx(cnn())(X.astype(dtype))  # type: ignore[call-overload]
        assert got.dtype == np.float32
        close(got, reference(cnn(), {"x": X})[0])

    def test_any_layout(self) -> None:
        net = af.load_onnx(cnn())
        wide = np.zeros((1, 3, 8, 16), np.float32)
        wide[..., ::2] = X
        assert np.array_equal(net(wide[..., ::2]), net(X))
        assert np.array_equal(net(np.asfortranarray(X)), net(X))

    @pytest.mark.parametrize("arrays", [(), (X, X)])
    def test_wrong_count(self, arrays: tuple[np.ndarray, ...]) -> None:
        with pytest.raises(ValueError, match=r"takes 1 arrays \('x'\), [02] were given"):
            af.load_onnx(cnn())(*arrays)

    def test_wrong_shape(self) -> None:
        with pytest.raises(ValueError, match=r"'x' has the shape \(1, 3, 8, 8\), not \(3, 8, 8\)"):
            af.load_onnx(cnn())(X[0])

    @pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool, np.complex64, object])
    def test_wrong_dtype(self, dtype: type) -> None:
        with pytest.raises(TypeError, match="'x' takes a float array"):
            af.load_onnx(cnn())(np.ones((1, 3, 8, 8)).astype(dtype))

    def test_wrong_names(self) -> None:
        with pytest.raises(ValueError, match=r"no input 'z'; input 'x' is missing; the inputs are 'x'"):
            af.load_onnx(cnn()).run({"z": X})

    def test_outputs_are_new_arrays(self) -> None:
        net = af.load_onnx(cnn())
        first = net(X)
        copy = first.copy()
        net(X * 2)
        assert np.array_equal(first, copy)

    def test_release(self) -> None:
        with af.load_onnx(cnn()) as net:
            net(X)
        net.release()
        with pytest.raises(ValueError, match="released"):
            net(X)


class TestOutputsThatNeedNoEngine:
    def test_known_at_import(self) -> None:
        net = af.load_onnx(
            model(
                [node("Relu", "x", "y"), node("Shape", "x", "s")],
                {"x": [2, 3]},
                {"y": [2, 3], "s": [2]},
                types={"s": 7},
            )
        )
        y, s = net(floats(2, 3))
        assert s.dtype == np.int64
        assert s.tolist() == [2, 3]
        s[0] = 9
        assert net(floats(2, 3))[1].tolist() == [2, 3]
        assert y.min() >= 0

    def test_all_known(self) -> None:
        net = af.load_onnx(model([node("Shape", "x", "s")], {"x": [2, 3]}, {"s": [2]}, types={"s": 7}))
        assert net(floats(2, 3)).tolist() == [2, 3]
        assert net.n_ops == 0
        with pytest.raises(ValueError, match="shape"):
            net(floats(3, 2))

    def test_computed_from_constants_alone(self) -> None:
        """An engine's program must have an input, and an output of it must need one."""
        k, w = floats(1, 2, 5, 5, seed=1), floats(3, 2, 3, 3, seed=2)
        nodes = [node("Conv", "k w", "c"), node("Relu", "x", "r"), node("Less", "c d", "b")]
        constants = {"k": k, "w": w, "d": np.float32([0.1])}
        shapes = {"c": [1, 3, 3, 3], "r": [2], "b": [1, 3, 3, 3]}
        source = model(nodes, {"x": [2]}, shapes, constants, types={"b": 9})
        x = np.float32([-1, 2])
        expected = reference(source, {"x": x})
        net = af.load_onnx(source)
        got = net(x)
        assert [g.dtype for g in got] == [np.float32, np.float32, bool]
        for g, e in zip(got, expected, strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-5, atol=1e-6)
        assert net.n_ops == 1
        alone = af.load_onnx(model(nodes[:1], {"x": [2]}, {"c": shapes["c"]}, constants))
        np.testing.assert_allclose(alone(x), expected[0], rtol=1e-5, atol=1e-6)
        assert (alone.n_ops, alone.describe()) == (0, f"{alone.backend}: nothing to compute")

        c = af.conv(ir.const(k), w)
        mixed = af.compile([c, af.input((2,)).relu()])
        np.testing.assert_allclose(mixed(x)[0], expected[0], rtol=1e-5, atol=1e-6)
        assert mixed.n_ops == 1

    def test_an_input_as_output_keeps_every_bit(self) -> None:
        net = af.load_onnx(
            model([node("Identity", "x", "same"), node("Relu", "x", "y")], {"x": [2]}, {"same": [2], "y": [2]})
        )
        x = np.array([1e30, 1.0000001], np.float32)
        same, y = net(x)
        assert np.array_equal(same, x)
        assert same is not x
        assert y[0] == 65504  # finite values saturate

    def test_one_value_under_two_names(self) -> None:
        net = af.load_onnx(
            model([node("Relu", "x", "y"), node("Identity", "y", "z")], {"x": [3]}, {"y": [3], "z": [3]})
        )
        y, z = net(np.array([-1, 0, 2], np.float32))
        assert y.tolist() == z.tolist() == [0, 0, 2]


class TestDoors:
    def test_path_bytes_and_proto_are_one(self, tmp_path: Path) -> None:
        path = tmp_path / "m.onnx"
        proto = cnn()
        path.write_bytes(proto.SerializeToString())
        before = proto.SerializeToString(deterministic=True)
        results = [af.load_onnx(source)(X) for source in (str(path), path, path.read_bytes(), proto)]
        assert all(np.array_equal(r, results[0]) for r in results)
        assert proto.SerializeToString(deterministic=True) == before

    def test_same_numbers_as_a_session(self) -> None:
        import aneforge.provider  # noqa: F401, PLC0415
        from tests.provider.graphs import session  # noqa: PLC0415 - only here

        assert np.array_equal(af.load_onnx(cnn())(X), session(cnn()).run(None, {"x": X})[0])

    def test_options(self) -> None:
        exact = af.load_onnx(cnn(), numerics="fp32", target="m4", opt="0", backend="host")(X)
        np.testing.assert_allclose(exact, reference(cnn(), {"x": X})[0], rtol=2e-5, atol=2e-5)

    @pytest.mark.parametrize("target", ["m1", "h16g", 2, 5, "4", None])
    def test_targets(self, target: str | int | None) -> None:
        close(af.load_onnx(cnn(), target=target)(X), reference(cnn(), {"x": X})[0])

    @pytest.mark.parametrize(
        ("options", "kind", "says"),
        [
            ({"traget": "m1"}, af.OptionError, "did you mean target"),
            ({"target": "m77"}, af.OptionError, "m77"),
            ({"int8": True, "compress": "int4"}, ValueError, "two encodings"),
            ({"compress": "int5"}, af.OptionError, "compress"),
            ({"block_size": 0}, af.OptionError, "'block_size'"),
            ({"build_dir": "/tmp/x"}, NotImplementedError, "'build_dir'"),
            ({"opt": 1}, NotImplementedError, "'opt'"),
            ({"opt": 2}, NotImplementedError, "'opt'"),
            ({"opt": "max"}, NotImplementedError, "'opt'"),
            ({"min_nodes": 3}, ValueError, "for sessions"),
            ({"strict": False}, ValueError, "always strict"),
            ({"backend": "e5rt"}, af.BackendUnavailableError, "e5rt"),
        ],
    )
    def test_nothing_is_ignored(self, options: dict[str, object], kind: type[Exception], says: str) -> None:
        with pytest.raises(kind, match=says):
            af.load_onnx(cnn(), **options)  # type: ignore[arg-type]

    def test_words_that_ask_for_nothing(self) -> None:
        af.load_onnx(
            cnn(), int8=False, compress=None, compress_atol=0.05, block_size=32, build_dir=None, validate=False,
            target=None, opt="routes", strict=True,
        )  # fmt: skip


class TestRefusals:
    def test_every_node_is_listed(self) -> None:
        bad = model(
            [node("Det", "x", "d"), node("Acosh", "x", "a"), node("Relu", "a", "r")],
            {"x": [1, 2, 2]},
            {"d": [1], "r": [1, 2, 2]},
        )
        with pytest.raises(af.UnsupportedModelError) as caught:
            af.load_onnx(bad)
        assert isinstance(caught.value, NotImplementedError)
        assert {n.op for n in caught.value.nodes} >= {"Det"}
        assert all(n.reason.text for n in caught.value.nodes)

    def test_one_unknown_operator_reads_as_ever(self) -> None:
        with pytest.raises(NotImplementedError, match=r"^ONNX op 'Det' not supported"):
            af.load_onnx(model([node("Det", "x", "d")], {"x": [1, 2, 2]}, {"d": [1]}))

    def test_dynamic(self) -> None:
        loose = model([node("Relu", "x", "y")], {"x": ["batch", 3]}, {"y": ["batch", 3]})
        with pytest.raises(af.DynamicShapeError, match=r"'x'.*'batch'.*dims=\{'batch': 1\}"):
            af.load_onnx(loose)
        x = floats(4, 3)
        for how in ({"dims": {"batch": 4}}, {"input_shapes": {"x": (4, 3)}}):
            assert np.array_equal(af.load_onnx(loose, **how)(x), np.maximum(x, 0).astype(np.float16))  # type: ignore[arg-type]

    def test_a_limit_of_the_target_names_the_node(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def legalize(program: object, target: object, fused: bool = False) -> None:
            op = next(op for op in program.ops if op.kind == "conv")  # type: ignore[attr-defined]
            found = passes.Violation(op, "conv", Reason("limit", "too wide"), program.origins(op))  # type: ignore[attr-defined]
            raise passes.LegalizeError(target, [found])  # type: ignore[arg-type]

        monkeypatch.setattr(passes, "legalize", legalize)
        with pytest.raises(af.UnsupportedModelError, match="too wide") as caught:
            af.load_onnx(cnn())
        assert {n.op for n in caught.value.nodes} <= {"Conv", "Relu"}

    def test_our_bug_is_an_internal_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def lower(*_: object) -> None:
            raise KeyError("oops")

        monkeypatch.setattr(pipeline, "lower", lower)
        with pytest.raises(af.InternalError, match="KeyError"):
            af.load_onnx(cnn())

    def test_auto_on_apple_is_never_the_host_in_silence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(backends, "on_apple_silicon", lambda: True)
        monkeypatch.setattr(backends.e5rt, "on_apple_silicon", lambda: True)
        with pytest.raises(af.BackendUnavailableError, match="backend='host'"):
            af.load_onnx(cnn())
        assert af.load_onnx(cnn(), backend="host").backend == "host emulation"


class TestOverflow:
    SQUARE = model([node("Mul", "x x", "y")], {"x": [2]}, {"y": [2]})
    BIG = np.full(2, 300, np.float32)

    def test_warns_once(self) -> None:
        net = af.load_onnx(self.SQUARE)
        with pytest.warns(RuntimeWarning, match="'y'"):
            net(self.BIG)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            net(self.BIG)

    def test_error_and_ignore(self) -> None:
        with pytest.raises(FloatingPointError, match="'y'"):
            af.load_onnx(self.SQUARE, on_overflow="error")(self.BIG)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            af.load_onnx(self.SQUARE, on_overflow="ignore")(self.BIG)


class TestBadModels:
    @pytest.mark.parametrize("content", [b"", b"hello", bytes(100), b"\x08\x07"])
    def test_not_onnx(self, content: bytes) -> None:
        with pytest.raises(af.ModelError):
            af.load_onnx(content)

    def test_missing(self) -> None:
        with pytest.raises(af.ModelError, match=r"nowhere\.onnx"):
            af.load_onnx("/nowhere.onnx")

    def test_too_new(self) -> None:
        made = cnn()
        made.opset_import[0].version = 99
        with pytest.raises(af.ModelError, match="99"):
            af.load_onnx(made)

    def test_invalid(self) -> None:
        made = cnn()
        made.graph.node[1].input[0] = "nobody"
        with pytest.raises(af.ModelError, match="nobody"):
            af.load_onnx(made)
