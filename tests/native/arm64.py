"""Programs for a processor that is emulated (arm64_linux.sh): written here, run there, judged here.

    python tests/native/arm64.py write FOLDER             programs, feeds and the expectations of conversion_selftest
    python tests/native/arm64.py judge FOLDER BACKEND     what run_programs left there; exit status 1 if anything is wrong

Two judges: the independent evaluator (tests/oracle), and, for the host backend, its own bits on this machine: results depend on
no instruction set.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

import conversions
from milkit import MODES, Program
from oracle.mil_reference import evaluate, read
from test_host_fused import Net, random_image_net

from aneforge import mil
from aneforge.backends import native
from aneforge.selfcheck.programs import vocabulary

Array = NDArray[Any]
DTYPES = {"fp16": np.float32, "fp32": np.float32, "uint8": np.uint8}  # of what is fed for a port
SEEDS = range(8)
NOT_ON_HOST = ("batch_to_space", "crop", "flatten2d", "space_to_batch")  # which nothing sends there
# Computed with functions of the C library, whose last bits are its own (native/host/math.h).
LIBRARY = ("reduce_log_sum", "reduce_log_sum_exp", "scaled_dot_product_attention", "sin", "softplus_parametric")
CLOSE = {"fp16": 2e-2, "fp32": 1e-4}  # of the largest value: sums in fp16 end on other neighbours, step by step


class Case:
    def __init__(self, name: str, text: str, blob: bytes, feeds: list[Array], options: dict[str, str]) -> None:
        self.name, self.text, self.blob, self.feeds, self.options = name, text, blob, feeds, options


def by_hand(mode: str) -> Iterator[tuple[str, Program, list[Any]]]:
    """Operations in the sizes that the fast kernels are for, and a few that only move or pick."""
    net = Net(mode, 1)
    x = net.input(1, 40, 30, 29)
    y = net.activate(net.conv(x, 64, (3, 3)), "relu")
    yield "convs", net.program, [net.activate(net.op("add", x=net.conv(y, 64, (3, 3)), y=y), "relu"), y]
    net = Net(mode, 2)
    y = net.activate(net.conv(net.input(2, 24, 17, 20), 24, (3, 3), 2, 24), "relu6")
    yield "depthwise", net.program, [net.conv(y, 33, (1, 1))]
    net = Net(mode, 3)
    yield "deconv", net.program, [net.activate(net.deconv(net.input(1, 16, 9, 10), 24, 3, 2), "prelu")]
    net = Net(mode, 4)
    x = net.input(1, 19, 15, 22)
    yield "pooling", net.program, [net.pool(x, 3, 2, 1, False), net.pool(x, 2, 2, 0, True), net.pool(x, 3, 1, 1, True)]
    net = Net(mode, 5)
    y = net.op(
        "matmul", (37, 50), x=net.input(37, 40), y=net.normal(40, 50, scale=0.2), transpose_x=False, transpose_y=False
    )
    yield "product", net.program, [net.op("gelu", x=net.op("add", x=y, y=net.normal(50)), mode="EXACT")]
    net = Net(mode, 6)
    q, k, v = (net.input(2, 3, 37, 16) for _ in range(3))
    scores = net.op("matmul", (2, 3, 37, 37), x=q, y=k, transpose_x=False, transpose_y=True)
    weights = net.op("softmax", x=net.op("mul", x=scores, y=0.25), axis=-1)
    yield (
        "attention",
        net.program,
        [net.op("matmul", (2, 3, 37, 16), x=weights, y=v, transpose_x=False, transpose_y=False)],
    )
    for axis in range(4):
        net = Net(mode, 7 + axis)
        yield f"softmax_axis{axis}", net.program, [net.op("softmax", x=net.input(3, 5, 7, 18), axis=axis)]
    net = Net(mode, 11)
    x = net.input(6, 70)
    y = net.op("layer_norm", x=x, axes=np.int32([-1]), gamma=net.normal(70), beta=net.normal(70), epsilon=1e-3)
    yield "layer_norms", net.program, [y]
    net = Net(mode, 12)
    x = net.input(2, 10, 13, 14)
    y = net.op("instance_norm", x=x, gamma=net.normal(10), beta=net.normal(10), epsilon=1e-3)
    yield "instance_norms", net.program, [y]
    net = Net(mode, 13)
    x = net.input(4, 6, 50)
    reduced = [
        net.op(f"reduce_{kind}", (4, 6, 1), x=x, axes=np.int32([-1]), keep_dims=True)
        for kind in ("sum", "mean", "max", "min", "sum_square")
    ]
    yield "reducing", net.program, [*reduced, net.op("reduce_sum", (1, 6, 50), x=x, axes=np.int32([0]), keep_dims=True)]
    net = Net(mode, 14)
    x = net.input(1, 5, 12, 9)
    y = net.op(
        "upsample_bilinear", (1, 5, 24, 27), x=x, scale_factor_height=2, scale_factor_width=3, align_corners=False
    )
    yield "resizing", net.program, [y]
    net = Net(mode, 15)
    x = net.input(3, 5, 40)
    y = net.op("transpose", (40, 3, 5), x=x, perm=np.int32([2, 0, 1]))
    piece = net.op(
        "slice_by_index",
        (10, 3, 2),
        x=y,
        begin=np.int32([1, 0, 1]),
        end=np.int32([40, 3, 5]),
        stride=np.int32([4, 1, 2]),
    )
    yield "moves", net.program, [piece, net.op("tile", (6, 5, 80), x=x, reps=np.int32([2, 1, 2]))]


def cases() -> Iterator[Case]:
    draw = np.random.default_rng(7)
    for kind, program in vocabulary().items():
        for mode in ("fp16", "fp32"):
            made = mil.write(program, mode)
            text, blob = made.text, bytes(made.blob)
            feeds = [
                draw.integers(0, 100, t.shape).astype(np.uint8)
                if t.dtype == "uint8"
                else (draw.random(t.shape) + 0.25).astype(np.float16).astype(np.float32)
                for _, t in read(text, blob).inputs
            ]
            if kind not in NOT_ON_HOST:
                yield Case(f"{kind}-{mode}", text, blob, feeds, {"numerics": mode})
    for mode in MODES:
        nets = [*by_hand(mode)]
        for seed in SEEDS:
            net, outputs = random_image_net(mode, seed)
            nets.append((f"random{seed}", net.program, outputs))
        for name, program, outputs in nets:
            program.seal()
            feeds = [np.asarray(f, np.float32) for f in program.feeds]
            yield Case(f"{name}-{mode}", program.text(outputs), bytes(program.blob), feeds, {"numerics": mode})


def write(folder: Path) -> None:
    count = 0
    for case in cases():
        place = folder / "programs" / case.name
        place.mkdir(parents=True)
        (place / "model.mil").write_text(case.text, "ascii")
        (place / "weights.bin").write_bytes(case.blob)
        (place / "options").write_text("".join(f"{k} {v}\n" for k, v in case.options.items()))
        lines = [f"in {conversions.CODES[feed.dtype]}\n" for feed in case.feeds]
        lines += ["out 1\n"] * len(read(case.text, case.blob).outputs)
        (place / "ports").write_text("".join(lines))
        for i, feed in enumerate(case.feeds):
            (place / f"in{i}").write_bytes(np.ascontiguousarray(feed).tobytes())
        count += 1
    print(f"{count} programs written, {conversions.write(folder / 'conversions')} cases of conversion")


def judge(folder: Path, backend: str) -> int:
    wrong: list[str] = []
    judged = 0
    for place in sorted((folder / "programs").iterdir()):
        text, blob = (place / "model.mil").read_text("ascii"), (place / "weights.bin").read_bytes()
        options = dict(line.split() for line in (place / "options").read_text().splitlines())
        program = read(text, blob)
        feeds = [
            np.frombuffer((place / f"in{i}").read_bytes(), DTYPES[t.dtype]).reshape(t.shape)
            for i, (_, t) in enumerate(program.inputs)
        ]
        kinds = {name: t for s in program.operations for name, t in s.results}
        if not (place / "out0").exists():
            wrong.append(
                f"{place.name}: {(place / 'error').read_text() if (place / 'error').exists() else 'no result'}"
            )
            continue
        got = [
            np.frombuffer((place / f"out{i}").read_bytes(), np.float32).reshape(kinds[name].shape)
            for i, name in enumerate(program.outputs)
        ]
        judged += 1
        numerics = options.get("numerics", "fp16")
        if numerics != "engine":  # its quirks are judged by tests/quirks; here its bits are
            wanted = evaluate(text, blob, dict(zip([n for n, _ in program.inputs], feeds, strict=True)), numerics)
            for g, name in zip(got, program.outputs, strict=True):
                w = wanted[name].astype(np.float64)
                largest = np.abs(w[np.isfinite(w)]).max(initial=1e-3)
                with np.errstate(invalid="ignore"):
                    near = np.abs(g - w) <= CLOSE[numerics] * largest
                if not (near | (g == w) | (np.isnan(g) & np.isnan(w))).all():
                    wrong.append(f"{place.name}: {name} differs from the evaluator")
        if backend == "host":
            here, _ = native.load().compile("host", text, blob, options).run(feeds, [np.float32] * len(got), 2)
            for g, h, name in zip(got, here, program.outputs, strict=True):
                if place.name.removesuffix("-fp32") in LIBRARY and np.allclose(g, h, rtol=1e-6, atol=1e-6):
                    continue
                if not np.array_equal(g, h, equal_nan=True):
                    wrong.append(
                        f"{place.name}: {name} has other bits than here, in {int((g != h).sum())} of {g.size} places"
                    )
    for line in wrong:
        print(line)
    print(f"{backend}: {judged} programs judged, {len(wrong)} complaints")
    return 1 if wrong or not judged else 0


if __name__ == "__main__":
    where = Path(sys.argv[2])
    if sys.argv[1] == "write":
        write(where)
    else:
        sys.exit(judge(where, sys.argv[3]))
