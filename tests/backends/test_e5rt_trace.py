"""What the engine's road writes of its calls, and where the stand-in would have answered otherwise."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from standin import HERE, Standin
from standin.replay import BadTrace, Difference, read, replay

from aneforge.selfcheck.symbols import REQUIRED
from tests.backends.engine_kit import NEEDS_THE_STANDIN

pytestmark = NEEDS_THE_STANDIN

BODY = """
import os, sys, threading
sys.path[:0] = {path!r}
import numpy as np
from aneforge import backends, ops
from aneforge.errors import CompileError
from aneforge.ir import Program, const, input
from aneforge.mil import write
from aneforge.options import Options
from aneforge.targets import resolve
from standin import Standin
control = Standin(os.environ["ANEFORGE_E5RT_LIBRARY"])
def compiled(make, shape, dtype="fp16", guard="off"):
    x = input("x", shape, dtype)
    program = Program([("x", x)], [(f"y{{i}}", y) for i, y in enumerate(make(x))])
    return backends.compile(write(program), Options(backend="e5rt", compile_guard=guard), resolve("m5"))
def ramp(shape):
    return np.linspace(-2, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)
"""
SESSION = """
two = compiled(lambda x: [ops.relu(x), ops.exp(x)], (2, 3))
weight = const(ramp((64, 8)).astype(np.float16))
product = compiled(lambda x: [ops.matmul(ops.cast(x, "fp16"), weight)], (4, 64), "uint8")
wide = compiled(lambda x: [ops.tanh(x)], (33, 1024))
for k in range(5):
    two.run([ramp((2, 3)) * k])
    product.run([np.full((4, 64), k, np.uint8)])
    wide.run([ramp((33, 1024))])
other = threading.Thread(target=lambda: two.run([ramp((2, 3))]))
other.start()
other.join()
control.fail("e5_compiler_compile", 1, "truncate_text")
try:
    compiled(lambda x: [ops.sigmoid(x)], (2, 3))
except CompileError as error:
    assert os.environ["HOME"] in str(error), error
else:
    raise SystemExit("compiled")
for program in (two, product, wide):
    program.release()
assert control.live() == 0 and control.misuse() == "", control.misuse()
"""


def process(library: Path, caches: Path, body: str, trace: Path | str, **more: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **Standin.environment(library, caches), "ANEFORGE_E5RT_TRACE": str(trace), **more}
    code = BODY.format(path=[p for p in sys.path if p]) + body
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False, env=variables
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def recorded(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    assert process(built, folder / "caches", SESSION, folder / "trace").stderr == ""
    return folder / "trace"


@pytest.fixture
def trace(recorded: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    return Path(shutil.copytree(recorded, tmp_path / "trace"))


@pytest.fixture
def player(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], list[str]]:
    """Plays a trace with a stand-in of its own, whose handles are nobody else's; gives the differences."""
    library = Path(shutil.copy(built, tmp_path / "libplayer.so"))
    for key, value in Standin.environment(library, tmp_path).items():
        monkeypatch.setenv(key, value)
    return lambda folder: [str(d) for d in replay(folder, library).differences]


def calls(trace: Path) -> list[dict[str, Any]]:
    return read(trace / "calls.jsonl")


def change(trace: Path, how: Callable[[dict[str, Any]], object], **where: object) -> None:
    """Changes the first line that has these values; how gives False for a line that goes."""
    lines = [json.loads(line) for line in (trace / "calls.jsonl").read_text().splitlines()]
    found = next(line for line in lines if all(line.get(k) == v for k, v in where.items()))
    if how(found) is False:
        lines = [line for line in lines if line.get("n") != found["n"]]
    (trace / "calls.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


# ---------------------------------------------------------------- what is written


def test_every_call_is_there(recorded: Path) -> None:
    written = calls(recorded)
    assert {call["call"] for call in written} == set(REQUIRED)
    assert all("end" in call for call in written)
    assert [call["n"] for call in written] == list(range(1, len(written) + 1))
    assert {call["thread"] for call in written} == {1, 2}
    assert sum(call["call"] == "execution_stream_execute_sync" for call in written) == 16
    failed = [call for call in written if call["end"]["status"]]
    assert [(call["call"], call["end"]["status"]) for call in failed] == [("e5_compiler_compile", 11)]


def test_a_line_of_each_kind(recorded: Path) -> None:
    first = calls(recorded)[:8]
    assert first[1]["arguments"] == [["handle", 1], ["path", "cache"]]
    assert first[4]["arguments"] == [["handle", 3], ["number", 4]]
    assert first[6]["arguments"] == [["handle", 3], ["text", "graph"]]
    assert first[7]["arguments"] == [["handle", 2], ["path", "model.mil"], ["handle", 3], ["out", 0]]
    assert first[7]["end"]["out"] == 4


def test_programs_stand_beside_it_by_their_content(recorded: Path) -> None:
    named = {call["program"] for call in calls(recorded) if call["call"] == "e5_compiler_compile"}
    assert len(named) == 4
    for name in named:
        folder = recorded / "programs" / name
        both = (folder / "model.mil").read_bytes() + (folder / "weights.bin").read_bytes()
        fnv1a = 0xCBF29CE484222325
        for byte in both:
            fnv1a = (fnv1a ^ byte) * 0x100000001B3 % 2**64
        assert f"{fnv1a:016x}" == name
    assert {p.name for p in (recorded / "programs").iterdir()} == named


def test_large_weights_are_counted_and_left_out(
    built: Path, tmp_path: Path, player: Callable[[Path], list[str]]
) -> None:
    body = """
weight = const(ramp((2200, 2200)).astype(np.float16))
large = compiled(lambda x: [ops.matmul(x, weight)], (1, 2200))
large.run([ramp((1, 2200))])
large.release()
"""
    process(built, tmp_path, body, tmp_path / "trace")
    (folder,) = (tmp_path / "trace" / "programs").iterdir()
    assert {p.name for p in folder.iterdir()} == {"model.mil", "weights.json"}
    assert json.loads((folder / "weights.json").read_text())["bytes"] == 2200 * 2200 * 2 + 128
    assert player(tmp_path / "trace") == []  # what needs the program is skipped, the rest is played


def test_port_bytes_of_the_first_runs(recorded: Path) -> None:
    runs = [call for call in calls(recorded) if call["call"] == "execution_stream_execute_sync"]
    streams = {tuple(call["arguments"][0]) for call in runs}
    assert len(streams) == 3
    for stream in streams:
        mine = [call for call in runs if tuple(call["arguments"][0]) == stream]
        assert ["inputs" in call for call in mine] == [True] * 3 + [False] * (len(mine) - 3)
        assert ["outputs" in call["end"] for call in mine] == ["inputs" in call for call in mine]
    assert sorted((len(call["inputs"]), len(call["end"]["outputs"])) for call in runs if "inputs" in call) == [
        *[(0, 0)] * 3,  # 66 KiB
        *[(1, 1)] * 3,
        *[(1, 2)] * 3,
    ]


def test_no_folder_and_no_name_is_written(recorded: Path) -> None:
    caches = recorded.parent / "caches"
    for file in recorded.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            for private in (str(caches), str(Path.home()), str(caches.parent), "/tmp/"):
                assert private.encode() not in data, (file.name, private)
    (failed,) = [call for call in calls(recorded) if call["end"]["status"]]
    assert "InvalidMILProgram: <folder>/model.mil: line" in failed["end"]["error"]


def test_further_processes_write_further_files(built: Path, tmp_path: Path) -> None:
    """The compile guard's children among them: what the compiler refuses is compiled nowhere else."""
    body = """
try:
    compiled(lambda x: [ops.sin(x)], (2, 3), guard="on")
except CompileError:
    pass
else:
    raise SystemExit("compiled")
"""
    process(built, tmp_path, body, tmp_path / "trace", STANDIN_FAMILY="A13")
    told = {p.name: read(p) for p in (tmp_path / "trace").glob("calls*")}
    assert set(told) == {"calls.jsonl", "calls-2.jsonl", "calls-3.jsonl"}
    assert told["calls.jsonl"] == []  # it opened the runtime, and called nothing
    assert all(call["end"]["status"] == 0 for call in told["calls-2.jsonl"])  # the probe
    (refused,) = [call for call in told["calls-3.jsonl"] if call["end"]["status"]]
    assert refused["call"] == "e5_compiler_compile"
    assert "Some ops are not supported" in refused["end"]["error"]
    text = (tmp_path / "trace" / "programs" / refused["program"] / "model.mil").read_text()
    assert " sin(" in text


def test_nothing_is_written_unless_asked(built: Path, tmp_path: Path) -> None:
    process(built, tmp_path, "compiled(lambda x: [ops.relu(x)], (2, 3)).release()", "")
    assert not list(tmp_path.rglob("calls*"))


LIFE = """
import resource
program = compiled(lambda x: [ops.relu(x)], (2, 3))
{limit}
for k in range(100):
    assert np.all(program.run([np.full((2, 3), k, np.float32)])[0] == k)
program.release()
"""


def test_a_folder_that_cannot_be_written(built: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = process(built, tmp_path, LIFE.format(limit=""), tmp_path / "file" / "trace")
    assert done.stderr.startswith("aneforge: ANEFORGE_E5RT_TRACE: no trace: ")
    assert done.stderr.count("\n") == 1


def test_a_disk_that_is_full(built: Path, tmp_path: Path) -> None:
    """The trace ends, once and with a word; no call fails."""
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))"
    done = process(built, tmp_path, LIFE.format(limit=limit), tmp_path / "trace")
    assert done.stderr.startswith("aneforge: ANEFORGE_E5RT_TRACE: the trace ends here: calls.jsonl: File too large")
    assert done.stderr.count("\n") == 1
    assert len(calls(tmp_path / "trace")) > 40  # and what stands there can be read


# ---------------------------------------------------------------- where the stand-in differs


def test_a_kept_trace(player: Callable[[Path], list[str]]) -> None:
    """Written by an earlier version, over the stand-in: the format is still read, and the stand-in says the same."""
    kept = HERE / "traces" / "small"
    assert len(calls(kept)) == 43
    assert player(kept) == []


def test_what_the_standin_said_is_what_it_says(recorded: Path, player: Callable[[Path], list[str]]) -> None:
    """But for the text that was cut on its way to the compiler: that compiles now."""
    (only,) = player(recorded)
    assert "e5_compiler_compile: status 11 (InvalidMILProgram: <folder>/model.mil" in only
    assert only.endswith("in the trace, 0 here")


def check(trace: Path, player: Callable[[Path], list[str]], *says: str) -> None:
    """One difference for each, beside the one that is there anyway."""
    found = [d for d in player(trace) if "InvalidMILProgram" not in d]
    assert len(found) == len(says), found
    for difference, said in zip(found, says, strict=True):
        assert said in difference


def test_a_status(trace: Path, player: Callable[[Path], list[str]]) -> None:
    change(trace, lambda line: line["end"].update(status=0) if "end" in line else line.update(status=3, error="odd"), n=5, status=0)  # fmt: skip
    check(
        trace, player, "call 5 e5_compiler_options_set_compute_device_types_mask: status 3 (odd) in the trace, 0 here"
    )


def test_an_exception(trace: Path, player: Callable[[Path], list[str]]) -> None:
    change(trace, lambda line: line.update(threw=True), n=12, status=0)
    check(trace, player, "call 12 e5_compiler_config_options_release: threw in the trace, 0 here")


def test_an_output(trace: Path, player: Callable[[Path], list[str]]) -> None:
    run = next(c for c in calls(trace) if c["call"] == "execution_stream_execute_sync")
    port, data = next(iter(run["end"]["outputs"].items()))
    change(trace, lambda line: line["outputs"].update({port: "AEA" + data[3:]}), n=run["n"], status=0)
    check(trace, player, f"values of port {port} differ, the first at 0: 2 in the trace, 0 here")


def test_a_program(trace: Path, player: Callable[[Path], list[str]]) -> None:
    (with_weights,) = [p for p in trace.glob("programs/*/model.mil") if "matmul" in p.read_text()]
    data = bytearray(with_weights.with_name("weights.bin").read_bytes())
    data[-16:] = bytes(16)
    with_weights.with_name("weights.bin").write_bytes(data)
    found = [d for d in player(trace) if "InvalidMILProgram" not in d]
    assert found
    assert all("execute_sync" in d and "differ, the first at" in d for d in found)


def test_a_release_that_is_missing(trace: Path, player: Callable[[Path], list[str]]) -> None:
    change(trace, lambda line: False, call="e5_compiler_options_release")
    check(trace, player, "handle 3, which e5_compiler_options_create gave, is never released")


def test_a_release_that_is_too_early(trace: Path, player: Callable[[Path], list[str]]) -> None:
    stream = next(c for c in calls(trace) if c["call"] == "execution_stream_release")
    change(trace, lambda line: line.update(call="execution_stream_operation_release"), call="execution_stream_release")
    found = " ".join(player(trace))
    assert f"call {stream['n']} execution_stream_operation_release: status 0 in the trace, 2 " in found
    assert "the stand-in saw a misuse: execution_stream_operation_release: not a live operation" in found


def test_a_call_that_did_not_return(trace: Path, player: Callable[[Path], list[str]]) -> None:
    lines = (trace / "calls.jsonl").read_text().splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if '"call": "execution_stream_execute_sync"' in line)
    (trace / "calls.jsonl").write_text("".join(lines[: last + 1]) + lines[last + 1][:9])
    check(trace, player, "execution_stream_execute_sync: did not return: the process ended in it")


def test_an_unknown_function(trace: Path, player: Callable[[Path], list[str]]) -> None:
    change(trace, lambda line: line.update(call="e5_compiler_options_set_mood"), n=6)
    check(trace, player, "call 6 e5_compiler_options_set_mood: the stand-in has no such function")


def test_weights_that_are_not_in_the_trace(
    built: Path, trace: Path, tmp_path: Path, player: Callable[[Path], list[str]]
) -> None:
    (with_weights,) = [p for p in trace.glob("programs/*/model.mil") if "matmul" in p.read_text()]
    with_weights.with_name("weights.bin").unlink()
    check(trace, player)
    played = replay(trace, tmp_path / "libplayer.so")
    assert played.runs == 11
    assert played.skipped > 20


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ('{"trace": 2}\n', "format 2"),
        ('{"trace": 1}\nwhat\n{"n": 1}\n', "line 2"),
        ("{}\n{}\n", "line 1"),
    ],
)
def test_a_file_that_is_no_trace(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "calls.jsonl").write_text(text)
    with pytest.raises(BadTrace, match=says):
        calls(tmp_path)


def test_as_a_command(recorded: Path, trace: Path) -> None:
    def run(folder: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "standin.replay", str(folder), "--family", "A16"]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=HERE.parent)

    done = run(recorded)
    assert done.returncode == 1
    assert done.stdout.endswith("16 runs, 9 with outputs; 1 differences\n")
    assert run(recorded / "programs").returncode == 2
    assert str(Difference("calls.jsonl", 0, "", "odd")) == "calls.jsonl: odd"
