"""Core ML packages, judged by coremltools: its protobuf classes, its loader, and its type inference."""

import json
import logging
import os
import pathlib

import numpy as np
import pytest

from aneforge import ops
from aneforge.ir import Op, Program, Type, const, input
from aneforge.mil import package, save_package, write

logging.getLogger("coremltools").setLevel(logging.ERROR)
ct = pytest.importorskip("coremltools")
milproto = pytest.importorskip("coremltools.converters.mil.frontend.milproto.load").load

R = np.random.default_rng(5)


def loaded(path):
    """The program as coremltools reads it; it infers every type again and compares it with what is declared."""
    model = ct.models.MLModel(str(path), skip_model_load=True)
    spec = model.get_spec()
    assert not spec.mlProgram.FindInitializationErrors()
    assert spec.SerializeToString(deterministic=True)
    program = milproto(spec, specification_version=spec.specificationVersion, file_weights_dir=model.weights_dir)
    return spec, program.functions["main"]


def everything() -> Program:
    """A program with every kind of parameter and most kinds of operations."""
    x = input("input:0", (1, 8, 12, 12))
    c = ops.conv(x, R.standard_normal((8, 4, 3, 3)), pad=(1, 1, 1, 1), groups=2)
    c = ops.add(c, R.standard_normal((1, 8, 1, 1)))
    c = ops.conv_transpose(c, R.standard_normal((8, 4, 2, 2)), strides=(2, 2), groups=2)
    c = ops.batch_norm(c, R.standard_normal(8), np.ones(8), R.standard_normal(8), R.standard_normal(8), epsilon=1e-3)
    c = ops.max_pool(ops.leaky_relu(c, 0.1), kernel_sizes=(2, 2), strides=(2, 2))
    c = ops.avg_pool(c, kernel_sizes=(3, 3), pad=(1, 1, 1, 1), exclude_padding_from_average=True)
    c = ops.pad(c, pad=(0, 0, 0, 0, 1, 1, 0, 2), mode="constant", constant_val=0.5)
    c = ops.slice_by_size(c, begin=(0, 0, 1, 0), size=(1, 8, 12, 12))
    p = ops.pixel_unshuffle(ops.pixel_shuffle(c, upscale_factor=2), downscale_factor=2)
    s = ops.depth_to_space(ops.space_to_depth(p, block_size=2), block_size=2)
    left, right = ops.split(ops.clip(s, -1.0, 1.0), num_splits=2, axis=1)
    chosen = ops.select(ops.greater(left, right), left, right)
    joined = ops.concat((chosen, ops.gelu(right)), axis=1)
    up = ops.resize_bilinear(joined, 24, 24, sampling_mode="UNALIGN_CORNERS")
    up = ops.resize_nearest_neighbor(up, 12, 12)
    r = ops.reduce_mean(up, axes=(2, 3), keep_dims=True)
    flat = ops.reshape(ops.squeeze(ops.tile(r, reps=(1, 1, 1, 1)), axes=(2, 3)), shape=(1, 8))
    m = ops.matmul(ops.expand_dims(flat, axes=(1,)), R.standard_normal((5, 8)), transpose_y=True)
    m = ops.transpose(ops.softmax(m, axis=-1), perm=(0, 2, 1))
    m = ops.layer_norm(ops.reverse(m, axes=(1,)), axes=(1,), gamma=np.ones(5), beta=np.zeros(5), epsilon=1e-3)
    n = ops.log(ops.rsqrt(ops.inverse(ops.square(m), epsilon=1e-2), epsilon=1e-2), epsilon=1e-2)
    return Program([("input:0", x)], [("probabilities", n), ("2nd out", up)])


@pytest.mark.parametrize("numerics", ["engine", "fp32"])
def test_coremltools_agrees_with_every_type(tmp_path, numerics):
    path = save_package(everything(), tmp_path / "net.mlpackage", numerics)
    spec, function = loaded(path)
    assert spec.specificationVersion == 9
    assert [i.name for i in spec.description.input] == ["input_0"]
    assert [o.name for o in spec.description.output] == ["probabilities", "_2nd_out"]
    assert [o.shortDescription for o in spec.description.output] == ["probabilities", "2nd out"]
    assert tuple(spec.description.output[0].type.multiArrayType.shape) == (1, 5, 1)
    array_type = ct.proto.FeatureTypes_pb2.ArrayFeatureType
    wanted = array_type.FLOAT16 if numerics == "engine" else array_type.FLOAT32
    assert spec.description.input[0].type.multiArrayType.dataType == wanted
    assert [v.shape for v in function.outputs] == [(1, 5, 1), (1, 8, 12, 12)]
    kinds = [op.op_type for op in function.operations if op.op_type != "const"]
    assert kinds == [op.kind for op in everything().ops if not op.is_leaf]


def test_constants_arrive(tmp_path):
    weight = R.standard_normal((4, 3, 3, 3)).astype(np.float32)
    x = input("x", (1, 3, 8, 8))
    c = ops.conv(x, weight, pad=(1, 1, 1, 1))
    masks = const(np.array([[True, False, True, True]] * 4).reshape(1, 1, 4, 4))
    y = ops.add(ops.mul(c, 0.3), np.array([1.0, 2.0, 3.0]).repeat(1).reshape(1, 3, 1, 1)[:, :1])
    y = ops.slice_by_size(y, begin=(0, 0, 0, 0), size=(1, 1, 4, 4))
    y = ops.select(masks, y, ops.mul(y, 0.0))
    path = save_package(Program([("x", x)], [("y", y)]), tmp_path / "net.mlpackage")
    _, function = loaded(path)
    conv = function.find_ops(op_type="conv")[0]
    assert np.array_equal(conv.weight.val, weight.astype(np.float16))
    assert conv.groups.val == 1
    assert conv.pad.val.tolist() == [1, 1, 1, 1]
    assert function.find_ops(op_type="mul")[0].y.val == np.float16(0.3)
    assert np.array_equal(function.find_ops(op_type="select")[0].cond.val, masks.value)


def test_same_bytes_as_protobuf_writes(tmp_path):
    path = save_package(everything(), tmp_path / "net.mlpackage")
    raw = (path / "Data/com.apple.CoreML/model.mlmodel").read_bytes()
    spec = ct.proto.Model_pb2.Model.FromString(raw)
    assert spec.ByteSize() == len(raw)
    assert ct.proto.Model_pb2.Model.FromString(spec.SerializeToString()) == spec


def test_wrong_types_are_caught(tmp_path):
    """The judge is worth something: a wrong result type does not pass it."""
    x = input("x", (1, 3, 8, 8))
    wrong = Op("relu", {"x": x}, {}, (Type("fp16", (1, 3, 8, 9)),)).outputs[0]
    path = save_package(Program([("x", x)], [("y", wrong)]), tmp_path / "net.mlpackage")
    with pytest.raises(AssertionError, match="Mismatch"):
        loaded(path)


def test_ports_named_like_generated_ones(tmp_path):
    x, z = input("t0", (4,)), input("y0", (4,))
    y = ops.leaky_relu(ops.add(x, z), 0.25)
    outputs = [("x0", y), ("x0 ", ops.relu(y)), ("t1_alpha", ops.abs(y)), ("y0_alpha", ops.exp(y))]
    path = save_package(Program([("y0", x), ("t0", z)], outputs), tmp_path / "n.mlpackage")
    spec, _ = loaded(path)
    names = [p.name for p in (*spec.description.input, *spec.description.output)]
    assert len(set(names)) == 6


def test_package_is_deterministic_and_replaceable(tmp_path):
    def contents(path):
        return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}

    program = everything()
    one = save_package(program, tmp_path / "one.mlpackage")
    two = save_package(write(program), str(tmp_path / "two.mlpackage"))
    assert contents(one) == contents(two)
    x = input("x", (4,))
    save_package(Program([("x", x)], [("y", ops.relu(x))]), one)
    assert contents(one) != contents(two)
    assert sorted(os.listdir(tmp_path)) == ["one.mlpackage", "two.mlpackage"]
    manifest = json.loads((one / "Manifest.json").read_text())
    assert manifest["rootModelIdentifier"] in manifest["itemInfoEntries"]
    assert pytest.importorskip("coremltools.libmodelpackage").ModelPackage.isValid(str(one))


def test_nothing_half_written(tmp_path, monkeypatch):
    program = everything()
    path = save_package(program, tmp_path / "net.mlpackage")
    before = (path / "Manifest.json").read_bytes()

    def fails(*_args, **_kwargs):
        raise OSError("disk full")

    for where, attribute in ((pathlib.Path, "write_text"), (pathlib.Path, "rename")):
        with monkeypatch.context() as patch:
            patch.setattr(where, attribute, fails)
            with pytest.raises(OSError, match="disk full"):
                save_package(program, path)
            with pytest.raises(OSError, match="disk full"):
                save_package(program, tmp_path / "other.mlpackage")
        assert (path / "Manifest.json").read_bytes() == before
        assert os.listdir(tmp_path) == ["net.mlpackage"]


def test_refusals(tmp_path):
    x = input("x", (2, 2), "uint8")
    image = Program([("x", x)], [("y", ops.cast(x, "fp16"))])
    with pytest.raises(ValueError, match="no such port"):
        save_package(image, tmp_path / "net.mlpackage")
    with pytest.raises(ValueError, match=r"ends in \.mlpackage"):
        save_package(everything(), tmp_path / "net.mlmodel")
    (tmp_path / "file.mlpackage").write_text("precious")
    with pytest.raises(FileExistsError):
        save_package(everything(), tmp_path / "file.mlpackage")
    assert (tmp_path / "file.mlpackage").read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["file.mlpackage"]
    assert package.SPECIFICATION_VERSION == 9
