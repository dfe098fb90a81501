"""`export_onnx` and `aneforge export`: what the files hold, judged by a plain protobuf decoder, by the independent reader of
text and blob, by ONNX Runtime, and by coremltools where it is installed."""

import json
import logging
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from oracle import package_text
from oracle.mil_reference import evaluate
from oracle.mil_text import read, read_records

import aneforge as af
from aneforge import cli
from tests.provider.graphs import close, cnn, floats, interrupted, model, node, reference

logging.getLogger("coremltools").setLevel(logging.ERROR)


def attention() -> onnx.ModelProto:
    nodes = [
        node("MatMul", "x wq", "q"), node("MatMul", "x wk", "k"), node("Transpose", "k", "kt", perm=[0, 2, 1]),
        node("MatMul", "q kt", "s"), node("Softmax", "s", "p", axis=-1), node("MatMul", "p x", "a"),
        node("LayerNormalization", "a g b", "y"),
    ]  # fmt: skip
    weights = {
        "wq": floats(16, 8, seed=1) / 4,
        "wk": floats(16, 8, seed=2) / 4,
        "g": floats(16),
        "b": floats(16, seed=3),
    }
    return model(nodes, {"x": [1, 5, 16]}, {"y": [1, 5, 16]}, weights)


def lstm() -> onnx.ModelProto:
    weights = {"w": floats(1, 16, 3, seed=4) / 2, "r": floats(1, 16, 4, seed=5) / 2, "bias": floats(1, 32, seed=6) / 4}
    nodes = [node("LSTM", "x w r bias", "y h c", hidden_size=4)]
    return model(nodes, {"x": [5, 1, 3]}, {"y": [5, 1, 1, 4], "h": [1, 1, 4], "c": [1, 1, 4]}, weights)


def resized() -> onnx.ModelProto:
    nodes = [
        node("Resize", "x  scales", "u", mode="linear"),
        node("Split", "u", "l r", axis=1, num_outputs=2),
        node("Max", "l r", "y"),
    ]
    nodes[0].input[:] = ["x", "", "scales"]
    return model(nodes, {"x": [1, 4, 5, 5]}, {"y": [1, 2, 10, 10]}, {"scales": np.float32([1, 1, 2, 2])}, opset=18)


MODELS = {"cnn": cnn, "attention": attention, "lstm": lstm, "resized": resized}


@pytest.mark.parametrize("name", MODELS)
class TestBothForms:
    def test_the_package_says_what_the_text_says(self, name: str, tmp_path: Path) -> None:
        made = MODELS[name]()
        package = af.export_onnx(made, tmp_path / "net.mlpackage")
        text = af.export_onnx(made, tmp_path / "net")
        found = package_text.read(tmp_path / "net.mlpackage")
        program = read((tmp_path / "net/model.mil").read_text(), (tmp_path / "net/weights.bin").read_bytes())
        assert found.version == 9
        assert found.blob == (tmp_path / "net/weights.bin").read_bytes()
        operations = [o for o in found.operations if o.kind != "const"]
        assert package.n_ops == text.n_ops == len(operations) == len(program.operations)
        for ours, theirs in zip(operations, program.operations, strict=True):
            assert ours.kind == theirs.kind
            assert [(d, s) for _, d, s in ours.results] == [(t.dtype, t.shape) for _, t in theirs.results]
            assert sorted(ours.arguments) == sorted(theirs.arguments)
        # every reference is to something earlier, and every weight to the start of a record
        known = {n for n, _, _ in found.function_inputs}
        records = read_records(found.blob)
        for operation in found.operations:
            assert {n for names in operation.arguments.values() for n in names} <= known
            known |= {n for n, _, _ in operation.results}
            if operation.offset is not None:
                ((_, dtype, shape),) = operation.results
                assert records[operation.offset][0] == dtype
                assert records[operation.offset][1].size == np.prod(shape)
        assert set(found.function_outputs) <= known
        assert found.inputs == found.function_inputs
        assert [p.written for p in package.inputs] == [n for n, _, _ in found.inputs]
        assert [p.written for p in package.outputs] == [n for n, _, _ in found.outputs] == found.function_outputs
        assert [p.name for p in package.outputs] == [o.name for o in made.graph.output]

    def test_the_text_computes_what_the_model_says(self, name: str, tmp_path: Path) -> None:
        made = MODELS[name]()
        exported = af.export_onnx(made, tmp_path / "net")
        x = floats(*exported.inputs[0].shape, seed=9)
        got = evaluate((tmp_path / "net/model.mil").read_text(), (tmp_path / "net/weights.bin").read_bytes(), {"x0": x})
        for port, expected in zip(exported.outputs, reference(made, {"x": x}), strict=True):
            close(got[port.written].astype(np.float32), expected)

    def test_coremltools_infers_the_same_types(self, name: str, tmp_path: Path) -> None:
        ct = pytest.importorskip("coremltools", reason="the type checker of Core ML's packages is not installed")
        load = pytest.importorskip("coremltools.converters.mil.frontend.milproto.load").load
        for numerics in ("engine", "fp32"):
            af.export_onnx(MODELS[name](), tmp_path / "net.mlpackage", numerics=numerics)
            judged = ct.models.MLModel(str(tmp_path / "net.mlpackage"), skip_model_load=True)
            program = load(judged.get_spec(), specification_version=9, file_weights_dir=judged.weights_dir)
            ops = [o.op_type for o in program.functions["main"].operations if o.op_type != "const"]
            found = package_text.read(tmp_path / "net.mlpackage")
            assert ops == [o.kind for o in found.operations if o.kind != "const"]

    def test_the_blob_is_what_apples_writer_writes(self, name: str, tmp_path: Path) -> None:
        storage = pytest.importorskip("coremltools.libmilstoragepython", reason="Apple's blob writer is not installed")
        af.export_onnx(MODELS[name](), tmp_path / "net.mlpackage")
        ours = tmp_path / "net.mlpackage/Data/com.apple.CoreML/weights/weight.bin"
        writer = storage._BlobStorageWriter(str(tmp_path / "theirs.bin"))
        methods = {"fp16": writer.write_fp16_data, "fp32": writer.write_float_data}
        for offset, (dtype, array) in read_records(ours.read_bytes()).items():
            data = array.view(np.uint16) if dtype == "fp16" else array
            assert methods[dtype](data) == offset
        del writer, methods
        assert (tmp_path / "theirs.bin").read_bytes() == ours.read_bytes()


@pytest.mark.parametrize("form", ["int8", "int4", "sparse", "blockwise"])
def test_packed_weights(form: str, tmp_path: Path) -> None:
    weight = floats(256, 256, seed=11) / 16
    weight[np.abs(weight) < 0.1] = 0
    made = model([node("MatMul", "x w", "a"), node("Tanh", "a", "y")], {"x": [1, 256]}, {"y": [1, 256]}, {"w": weight})
    plain, packed = (
        af.export_onnx(made, tmp_path / f"{c}.mlpackage", target="m5", compress=c, compress_atol=0.9)
        for c in ("none", form)
    )
    found = package_text.read(tmp_path / f"{form}.mlpackage")
    kinds = {o.kind for o in found.operations if o.kind.startswith("constexpr")}
    assert kinds
    assert packed.weight_bytes < plain.weight_bytes
    assert packed.n_ops == sum(o.kind != "const" and o.kind not in kinds for o in found.operations)
    ct = pytest.importorskip("coremltools", reason="the type checker of Core ML's packages is not installed")
    load = pytest.importorskip("coremltools.converters.mil.frontend.milproto.load").load
    judged = ct.models.MLModel(str(tmp_path / f"{form}.mlpackage"), skip_model_load=True)
    program = load(judged.get_spec(), specification_version=9, file_weights_dir=judged.weights_dir)
    assert {o.op_type for o in program.functions["main"].operations} >= kinds


class TestPorts:
    def test_bytes_cross_as_fp16_in_a_package_alone(self, tmp_path: Path) -> None:
        nodes = [node("Cast", "x", "f", to=1), node("Mul", "f s", "y")]
        made = model(
            nodes, {"x": [1, 3, 4, 4]}, {"y": [1, 3, 4, 4]}, {"s": np.float32(1 / 255)}, {"x": TensorProto.UINT8}
        )
        package, text = (af.export_onnx(made, tmp_path / n) for n in ("net.mlpackage", "net"))
        assert [(p.dtype, p.model_dtype) for p in package.inputs] == [("fp16", "uint8")]
        assert [(p.dtype, p.model_dtype) for p in text.inputs] == [("uint8", "uint8")]
        assert package_text.read(tmp_path / "net.mlpackage").inputs == [("x", "fp16", (1, 3, 4, 4))]

    def test_idle_inputs_are_named(self, tmp_path: Path) -> None:
        made = model([node("Relu", "x", "y")], {"x": [2], "z": [3]}, {"y": [2]})
        assert af.export_onnx(made, tmp_path / "n.mlpackage").idle == ("z",)
        assert [n for n, _, _ in package_text.read(tmp_path / "n.mlpackage").inputs] == ["x"]

    def test_an_output_that_is_an_input(self, tmp_path: Path) -> None:
        made = model([node("Relu", "x", "y"), node("Identity", "x", "z")], {"x": [2]}, {"y": [2], "z": [2]})
        af.export_onnx(made, tmp_path / "net")
        got = evaluate(
            (tmp_path / "net/model.mil").read_text(),
            (tmp_path / "net/weights.bin").read_bytes(),
            {"x0": np.float32([-1, 2])},
        )
        assert (got["y0"].tolist(), got["y1"].tolist()) == ([0, 2], [-1, 2])


class TestRefusals:
    @pytest.mark.parametrize("form", ["net.mlpackage", "net"])
    def test_lists_the_nodes_and_writes_nothing(self, tmp_path: Path, form: str) -> None:
        with pytest.raises(af.UnsupportedModelError, match="Det") as caught:
            af.export_onnx(interrupted(), tmp_path / form)
        assert [n.op for n in caught.value.nodes] == ["Det"]
        assert not list(tmp_path.iterdir())

    def test_a_constant_output(self, tmp_path: Path) -> None:
        made = model(
            [node("Relu", "x", "y"), node("Relu", "c", "z")], {"x": [2]}, {"y": [2], "z": [2]}, {"c": floats(2)}
        )
        with pytest.raises(af.UnsupportedModelError, match="output 'z' is a constant"):
            af.export_onnx(made, tmp_path / "net.mlpackage")

    def test_scalar_ports(self, tmp_path: Path) -> None:
        made = model([node("ReduceSum", "x", "y", keepdims=0)], {"x": [3]}, {"y": []})
        with pytest.raises(af.UnsupportedModelError, match="scalar"):
            af.export_onnx(made, tmp_path / "net.mlpackage")

    def test_names_and_options(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"ends in \.mlpackage"):
            af.export_onnx(cnn(), tmp_path / "net.mlmodel")
        with pytest.raises(ValueError, match="'backend' is for running"):
            af.export_onnx(cnn(), tmp_path / "net", backend="host")
        with pytest.raises(af.OptionError, match="unknown option 'taget'"):
            af.export_onnx(cnn(), tmp_path / "net", taget="m1")

    def test_what_is_there_stays(self, tmp_path: Path) -> None:
        (tmp_path / "net").mkdir()
        (tmp_path / "net/precious").write_text("mine")
        with pytest.raises(FileExistsError):
            af.export_onnx(cnn(), tmp_path / "net")
        assert (tmp_path / "net/precious").read_text() == "mine"

    def test_nothing_half_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        af.export_onnx(cnn(), tmp_path / "net")
        before = {p.name: p.read_bytes() for p in (tmp_path / "net").iterdir()}

        def fails(*_args: object, **_kwargs: object) -> None:
            raise OSError("disk full")

        monkeypatch.setattr(Path, "write_bytes", fails)
        with pytest.raises(OSError, match="disk full"):
            af.export_onnx(attention(), tmp_path / "net")
        assert [p.name for p in tmp_path.iterdir()] == ["net"]
        assert {p.name: p.read_bytes() for p in (tmp_path / "net").iterdir()} == before


class TestCommand:
    @pytest.fixture
    def saved(self, tmp_path: Path) -> Path:
        onnx.save(cnn(), tmp_path / "m.onnx")
        return tmp_path / "m.onnx"

    def test_text(self, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = saved.parent / "m.mlpackage"
        assert cli.main(["export", str(saved), "-o", str(out), "--option", "target=m4"]) == 0
        told = capsys.readouterr().out
        assert "for h16" in told
        assert "input x  fp16 1x3x8x8; the model says float32" in told
        assert package_text.read(out).version == 9

    def test_json(self, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["export", str(saved), "-o", str(saved.parent / "net"), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["schema_version"] == 1
        assert told["format"] == "mil"
        assert told["refused"] == []
        assert told["weight_bytes"] == (saved.parent / "net/weights.bin").stat().st_size

    def test_refused_nodes_as_json(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        onnx.save(interrupted(), tmp_path / "m.onnx")
        assert cli.main(["export", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.mlpackage"), "--json"]) == 1
        told = json.loads(capsys.readouterr().out)
        assert told["path"] is None
        assert [(n["op"], n["name"]) for n in told["refused"]] == [("Det", "n_d")]
        assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]

    def test_usage(self, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["export", str(saved), "-o", "x.mlmodel"]) == 2
        assert cli.main(["export", str(saved), "-o", "x.mlpackage", "--option", "backend=host"]) == 2
        assert not (saved.parent / "x.mlpackage").exists()
        capsys.readouterr()
