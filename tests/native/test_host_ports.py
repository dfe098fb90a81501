"""What happens where the caller's tensors meet the program's: conversions, events, errors, concurrency."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from milkit import Program, half

from aneforge.backends import native


def through(
    array: np.ndarray, out: object, fp: str = "fp16", numerics: str = "fp16"
) -> tuple[np.ndarray, dict[str, list[int]]]:
    """The array, unchanged by the program (a reshape of both ways is no arithmetic)."""
    p = Program(fp)
    y = p.op("reshape", (array.size,), x=p.input(np.zeros(array.shape)), shape=[array.size])
    results, events = p.execute([y], feeds=[array], out=[out], numerics=numerics)
    return results[0].reshape(array.shape), events


def test_every_half_passes_unchanged() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    halves = bits.view(np.float16)
    finite = halves[~np.isnan(halves)]
    np.testing.assert_array_equal(through(finite, np.float16)[0].view(np.uint16), finite.view(np.uint16))
    np.testing.assert_array_equal(through(finite, np.float32)[0], finite.astype(np.float32))
    np.testing.assert_array_equal(through(finite, np.float64)[0], finite.astype(np.float64))
    assert np.isnan(through(halves[np.isnan(halves)], np.float32)[0]).all()


def test_conversion_functions_agree_with_numpy() -> None:
    module = native.load()
    bits = np.arange(65536, dtype=np.uint16)
    np.testing.assert_array_equal(module.from_half(bits), bits.view(np.float16).astype(np.float32))
    rng = np.random.default_rng(3)
    floats = rng.integers(0, 2**32, 2_000_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(invalid="ignore"):
        ties = (bits.view(np.float16).astype(np.float64)[:-1] + bits.view(np.float16).astype(np.float64)[1:]) / 2
    for values in (
        floats[~np.isnan(floats)],
        ties[np.isfinite(ties)].astype(np.float32),
        np.float32([65519.99, 65520, 2**-25, 2**-24, -0.0]),
    ):
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(module.to_half(values), values.astype(np.float16).view(np.uint16))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_finite_values_saturate_and_infinities_stay(dtype: type) -> None:
    x = np.array([65504, 65505, 1e5, -1e9, np.inf, -np.inf, 1e-9, 2049], dtype)
    got, events = through(x, np.float32)
    np.testing.assert_array_equal(got, [65504, 65504, 65504, -65504, np.inf, -np.inf, 0, 2048])
    assert events["saturated_inputs"] == [0] and events["nonfinite_outputs"] == []
    assert through(x[[0, 7]], np.float32)[1]["saturated_inputs"] == []
    got, events = through(x, dtype, "fp32", "fp32")
    np.testing.assert_array_equal(got, x.astype(np.float32))
    assert events["saturated_inputs"] == []


def test_doubles_round_once() -> None:
    x = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, 2049.0000000001, 2.0**-25 + 2.0**-60, 1e300])
    np.testing.assert_array_equal(through(x, np.float32)[0], [1 + 2.0**-10, 1, 2050, 2.0**-24, 65504])
    assert through(np.array([1e300]), np.float64, "fp32", "fp32")[1]["saturated_inputs"] == [0]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, np.int32, np.int64, np.uint32, np.uint64])
def test_integers_at_float_ports(dtype: type) -> None:
    info = np.iinfo(dtype)
    x = np.array([0, 1, 100, info.min, info.max], dtype)
    got, events = through(x, np.float32)
    np.testing.assert_array_equal(got, half(np.clip(x.astype(np.float64), -65504, 65504)))
    assert bool(events["saturated_inputs"]) == (info.max > 65504)
    np.testing.assert_array_equal(through(np.array([0, 1, 100], dtype), dtype)[0], [0, 1, 100])


def test_outputs_to_integers_and_bool() -> None:
    x = np.array([1.75, -1.75, np.nan, np.inf, -np.inf, 300], np.float32)
    np.testing.assert_array_equal(through(x, np.uint8)[0], [1, 0, 0, 255, 0, 255])
    np.testing.assert_array_equal(through(x, np.int64)[0], [1, -1, 0, 2**63 - 1, -(2**63), 300])
    np.testing.assert_array_equal(through(np.float32([0, -0.0, 0.5]), np.bool_)[0], [False, False, True])
    np.testing.assert_array_equal(through(np.array([True, False]), np.float32)[0], [1, 0])


def test_integer_ports_take_integers_only() -> None:
    p = Program("fp16")
    y = p.op("reshape", (4,), dtype="uint8", x=p.input(np.zeros((2, 2), np.uint8)), shape=[4])
    results, events = p.execute([y], feeds=[np.array([[300, -1], [7, 255]])])
    np.testing.assert_array_equal(results[0], [255, 0, 7, 255])
    assert events["saturated_inputs"] == [0]
    with pytest.raises(ValueError, match="fp32 does not convert to uint8"):
        p.run([y], feeds=[np.zeros((2, 2), np.float32)])


def test_nonfinite_outputs_are_told_only_when_inputs_were_finite() -> None:
    p = Program("fp16")
    x = p.input(np.zeros(2))
    outs = [p.op("add", (2,), x=x, y=1.0), p.op("exp", (2,), x=x)]
    run = lambda *v: p.execute(outs, feeds=[np.float32(v)], numerics="fp16")[1]["nonfinite_outputs"]  # noqa: E731
    assert run(1, 2) == []
    assert run(1, 20) == [1]
    assert run(np.inf, 20) == []


def test_wrong_calls() -> None:
    p = Program("fp16")
    y = p.op("relu", (2, 3), x=p.input(np.zeros((2, 3))))
    program = p.compile([y])
    with pytest.raises(ValueError, match=r"input 0 .* has shape \[3, 2\], not \[2, 3\]"):
        program.run([np.zeros((3, 2), np.float32)], [np.float32])
    with pytest.raises(ValueError, match="takes 1 inputs and gives 1 outputs, not 2 and 1"):
        program.run([np.zeros((2, 3), np.float32)] * 2, [np.float32])
    for bad in ({"numerics": "fp8"}, {"speed": "high"}, {"kernels": "best"}):
        with pytest.raises(ValueError, match="host backend"):
            p.compile([y], **bad)
    with pytest.raises(ValueError, match="no backend 'gpu'"):
        native.load().compile("gpu", p.text([y]), b"", {})
    assert "fp32 numerics" in p.compile([y], numerics="fp32").describe()


def test_an_output_may_be_an_input_a_constant_a_view_or_twice_the_same() -> None:
    p = Program("fp16")
    x = p.input(np.arange(6.0).reshape(2, 3))
    c = p.const(np.arange(12.0).reshape(3, 4))
    v = p.op("reshape", (3, 2), x=x, shape=[3, 2])
    r = p.op("reshape", (12,), x=c, shape=[12])
    got = p.run([x, c, v, v, r], numerics="fp16")
    for a, want in zip(
        got,
        [np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4), *[np.arange(6).reshape(3, 2)] * 2, np.arange(12)],
        strict=True,
    ):
        np.testing.assert_array_equal(a, want)


def test_many_threads_run_one_program() -> None:
    p = Program("fp16")
    x = p.input(np.zeros((1, 8, 24, 24)))
    c = p.op(
        "conv", (1, 8, 24, 24), x=x, weight=np.random.default_rng(1).normal(size=(8, 8, 3, 3)) / 8, pad_type="same"
    )
    y = p.op("softmax", (1, 8, 24, 24), x=p.op("add", (1, 8, 24, 24), x=c, y=x), axis=1)
    program = p.compile([y], numerics="fp16")
    feeds = [np.random.default_rng(i).normal(size=(1, 8, 24, 24)).astype(np.float32) for i in range(8)]
    wanted = [program.run([f], [np.float32], 1)[0][0] for f in feeds]
    wrong: list[int] = []

    def work(i: int) -> None:
        for k in range(40):
            if program.run([feeds[i]], [np.float32], 1 + k % 4)[0][0].tobytes() != wanted[i].tobytes():
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_long_chains_reuse_memory() -> None:
    p = Program("fp16")
    y = p.input(np.zeros((1, 1000)))
    for _ in range(3000):
        y = p.op("add", (1, 1000), x=y, y=1.0)
    program = p.compile([y], numerics="fp16")
    assert program.run([np.zeros((1, 1000), np.float32)], [np.float32])[0][0][0, 0] == 2048
    assert "arena 12" in program.describe() or "arena 8" in program.describe(), program.describe()
