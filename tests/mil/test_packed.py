"""Packed weights as bytes and text: against the layout written down by hand, and against Apple's own reader."""

import struct

import numpy as np
import pytest
from oracle.mil_reference import MilError, evaluate, read

from aneforge import ops
from aneforge.ir import Program, const, input
from aneforge.mil import write

R = np.random.default_rng(3)


def program(weight, width: int, transpose_y: bool = True) -> Program:
    x = input("x", (2, width))
    return Program([("x", x)], [("y", ops.matmul(x, weight, False, transpose_y))])


def records(blob: bytes) -> list[tuple[int, int, bytes]]:
    """(dtype code, unused bits, data) of each record, by the layout of StorageFormat.hpp."""
    count, version = struct.unpack_from("<II", blob, 0)
    assert version == 2
    at, out = 64, []
    for _ in range(count):
        at = -(-at // 64) * 64
        magic, code, size, start, unused = struct.unpack_from("<IIQQQ", blob, at)
        assert (magic, start) == (0xDEADBEEF, at + 64)
        assert not any(blob[at + 32 : at + 64])
        out.append((code, unused, bytes(blob[start : start + size])))
        at = start + size
    assert at == len(blob)
    return out


INT4 = (np.arange(15) * 7 % 16).astype(np.uint8).reshape(3, 5)
LUT = np.linspace(-1, 1, 16).astype(np.float16).reshape(1, 1, 16, 1)
MASK = (R.random((3, 5)) < 0.4).astype(np.uint8)
NONZERO = R.standard_normal(int(MASK.sum())).astype(np.float16)
CODES = R.integers(-127, 128, (3, 5)).astype(np.int8)
SCALE = (R.random(3) / 100).astype(np.float16)


def palette():
    return ops.constexpr_lut_to_dense(const(INT4, "uint4"), const(LUT))


def sparse():
    return ops.constexpr_sparse_to_dense(const(NONZERO), const(MASK, "uint1"))


def affine():
    return ops.constexpr_affine_dequantize(const(CODES), 0, const(SCALE), 0)


def test_nibbles_low_first() -> None:
    flat = INT4.reshape(-1).tolist()
    want = bytes(flat[i] + 16 * (flat[i + 1] if i + 1 < len(flat) else 0) for i in range(0, len(flat), 2))
    assert records(bytes(write(program(palette(), 5)).blob)) == [(11, 4, want), (1, 0, LUT.tobytes())]


def test_bits_low_first() -> None:
    whole = sum(int(bit) << i for i, bit in enumerate(MASK.reshape(-1)))
    found = records(bytes(write(program(sparse(), 5)).blob))
    assert sorted(found) == [(1, 0, NONZERO.tobytes()), (9, 1, whole.to_bytes(2, "little"))]


def test_affine_operands_are_attributes() -> None:
    mil = write(program(affine(), 5))
    assert sorted(records(bytes(mil.blob))) == [(1, 0, SCALE.tobytes()), (4, 0, CODES.tobytes())]
    (line,) = [text.strip() for text in mil.text.splitlines() if "constexpr" in text]
    head, _, rest = line.partition("()[axis = int32(0), name = string(")
    assert head == "tensor<fp16, [3, 5]> t0 = constexpr_affine_dequantize"
    assert "quantized_data = tensor<int8, [3, 5]>(BLOBFILE(" in rest
    assert "scale = tensor<fp16, [3]>(BLOBFILE(" in rest
    assert rest.endswith("zero_point = int8(0)];")
    assert "const()" not in mil.text.split("constexpr")[0]


def test_palette_and_mask_are_variables() -> None:
    text = write(program(palette(), 5)).text
    assert "tensor<uint4, [3, 5]> c0 = const()[name = string(" in text
    assert "constexpr_lut_to_dense(indices = c0, lut = c1)[name = string(" in text
    assert "constexpr_sparse_to_dense(mask = " in write(program(sparse(), 5)).text


def test_apples_reader_agrees(tmp_path) -> None:
    reader = pytest.importorskip("coremltools.libmilstoragepython")._BlobStorageReader
    for made, name, want in ((palette(), "uint4", INT4), (sparse(), "uint1", MASK), (affine(), "int8", CODES)):
        mil = write(program(made, 5))
        path = tmp_path / f"{name}.bin"
        path.write_bytes(mil.blob)
        kind = {"uint4": 11, "uint1": 9, "int8": 4}[name]
        at = next(offset for offset, code in _offsets(bytes(mil.blob)) if code == kind)
        got = getattr(reader(str(path)), f"read_{name}_data")(at)
        assert np.array_equal(np.asarray(got).reshape(want.shape), want), name


def _offsets(blob: bytes) -> list[tuple[int, int]]:
    at, out = 64, []
    for _, _, data in records(blob):
        at = -(-at // 64) * 64
        out.append((at, struct.unpack_from("<I", blob, at + 4)[0]))
        at += 64 + len(data)
    return out


@pytest.mark.parametrize("numerics", ["engine", "fp32"])
@pytest.mark.parametrize("make", [palette, sparse, affine])
def test_the_evaluator_reads_them(make, numerics: str) -> None:
    dense = {
        palette: LUT.reshape(-1)[INT4].astype(np.float64),
        sparse: np.zeros((3, 5)),
        affine: CODES * SCALE.astype(np.float64)[:, None],
    }[make]
    if make is sparse:
        dense[MASK == 1] = NONZERO
    if numerics == "engine":
        dense = dense.astype(np.float16).astype(np.float64)
    mil = write(program(make(), 5), numerics)
    x = R.standard_normal((2, 5)).astype(np.float16)
    got = evaluate(mil.text, mil.blob, {"x0": x}, "fp16" if numerics == "engine" else "fp32")["y0"]
    np.testing.assert_allclose(
        got, x.astype(np.float64) @ dense.T, rtol=2e-3 if numerics == "engine" else 1e-5, atol=2e-3
    )


def test_damaged_bits_are_refused() -> None:
    mil = write(program(palette(), 5))
    at = 64 + 64 + 7  # the last byte of the indices: its upper half is unused
    for damage in (lambda b: b.__setitem__(at, b[at] | 0x80), lambda b: b.__setitem__(64 + 24, 3)):
        blob = bytearray(mil.blob)
        damage(blob)
        with pytest.raises(MilError):
            read(mil.text, bytes(blob))


@pytest.mark.parametrize(
    "call",
    [
        lambda: ops.constexpr_affine_dequantize(const(CODES), 1, const(SCALE), 0),
        lambda: ops.constexpr_affine_dequantize(const(CODES), 0, const(SCALE[:2]), 0),
        lambda: ops.constexpr_lut_to_dense(const(INT4, "uint4"), const(LUT.reshape(16))),
        lambda: ops.constexpr_sparse_to_dense(const(NONZERO[1:]), const(MASK, "uint1")),
        lambda: ops.constexpr_blockwise_shift_scale(const(CODES), const(np.ones((3, 2), np.float16))),
    ],
)
def test_operands_that_do_not_fit(call) -> None:
    with pytest.raises(ValueError, match="constexpr_"):
        call()


@pytest.mark.parametrize("given", [input("x", (3, 5)), const(np.ones((3, 5)))])
def test_operands_that_are_no_codes(given) -> None:
    with pytest.raises(TypeError, match="takes a constant of"):
        ops.constexpr_affine_dequantize(given, 0, const(SCALE), 0)
