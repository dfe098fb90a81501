"""The cache folder: one maker among many processes, nothing half made, nothing left behind, nothing in use removed."""

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from aneforge import cache, cli
from aneforge.cache import Cache


def fill(size: int):  # type: ignore[no-untyped-def]
    return lambda folder: (folder / "data").write_bytes(bytes(size)) and None


def start(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def files(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and "locks" not in p.parts)


class TestEntries:
    def test_is_made_once(self, tmp_path: Path) -> None:
        made = []

        def make(folder: Path) -> None:
            made.append(folder)
            (folder / "data").write_text("x")

        kept = Cache(tmp_path / "c")
        with kept.entry("coreml", "k1", make) as first, kept.entry("coreml", "k1", make) as second:
            assert first.path == second.path
            assert (first.path / "data").read_text() == "x"
        assert len(made) == 1
        assert files(tmp_path) == ["c/store/coreml/k1/data"]

    def test_a_failure_keeps_nothing(self, tmp_path: Path) -> None:
        def make(folder: Path) -> None:
            (folder / "half").write_text("x")
            raise RuntimeError("compiler")

        with pytest.raises(RuntimeError, match="compiler"):
            Cache(tmp_path).entry("coreml", "k1", make)
        assert files(tmp_path) == []
        with Cache(tmp_path).entry("coreml", "k1", fill(3)):
            assert files(tmp_path) == ["store/coreml/k1/data"]

    def test_the_least_recently_used_goes_first(self, tmp_path: Path) -> None:
        kept = Cache(tmp_path, limit=250)
        for name, used in (("a", 10), ("b", 20)):
            kept.entry("coreml", name, fill(100)).close()
            os.utime(tmp_path / "store/coreml" / name, (used, used))
        kept.entry("coreml", "a", fill(0)).close()  # used again
        kept.entry("coreml", "c", fill(100)).close()
        assert [row.key for row in kept.rows()] == ["a", "c"]
        assert files(tmp_path) == ["store/coreml/a/data", "store/coreml/c/data"]

    def test_what_is_open_stays(self, tmp_path: Path) -> None:
        kept = Cache(tmp_path, limit=50)
        with kept.entry("coreml", "a", fill(100)) as entry:
            kept.entry("coreml", "b", fill(100)).close()
            assert [(r.key, r.open) for r in kept.rows()] == [("a", True), ("b", False)]
            assert kept.clear() == (100, 1)
            assert not kept.drop("coreml", "a")
            assert (entry.path / "data").is_file()
        assert kept.clear() == (100, 0)
        assert files(tmp_path) == []

    def test_only_the_user_reads_it(self, tmp_path: Path) -> None:
        Cache(tmp_path / "c").entry("coreml", "a", fill(1)).close()
        with Cache(tmp_path / "c").workspace() as folder:
            assert folder.stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "c/store/coreml").stat().st_mode & 0o077 == 0


RACE = """
    import sys, time
    from pathlib import Path
    from aneforge.cache import Cache
    def make(folder):
        with open(sys.argv[2], "a") as log: log.write("made\\n")
        time.sleep(0.05)
        (folder / "data").write_bytes(b"x" * 100000)
    sys.stdin.readline()
    kept = Cache(sys.argv[1], limit=150000)
    for i in range(20):
        with kept.entry("coreml", f"k{i % 3}", make) as entry:
            assert (entry.path / "data").stat().st_size == 100000
"""
HOLDS = """
    import sys
    from aneforge.cache import Cache
    kept = Cache(sys.argv[1])
    entry = kept.entry("coreml", "k", lambda folder: (folder / "data").write_bytes(b"x" * 10))
    with kept.workspace() as folder:
        (folder / "big").write_bytes(b"x" * 1000)
        print(folder, flush=True)
        sys.stdin.readline()
"""


class TestProcesses:
    def test_many_at_once(self, tmp_path: Path) -> None:
        """Four processes, three keys, room for one: everybody finds whole entries."""
        workers = [start(RACE, tmp_path / "c", tmp_path / "log") for _ in range(4)]
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        assert [worker.wait(120) for worker in workers] == [0] * 4
        assert list(Cache(tmp_path / "c").work.iterdir()) == []

    def test_one_makes_and_the_others_wait(self, tmp_path: Path) -> None:
        code = RACE.replace("limit=150000", "limit=10**9")
        workers = [start(code, tmp_path / "c", tmp_path / "log") for _ in range(3)]
        for worker in workers:
            worker.communicate("go\n", timeout=120)
        assert [worker.returncode for worker in workers] == [0] * 3
        assert (tmp_path / "log").read_text() == "made\n" * 3

    def test_what_the_dead_left_is_swept(self, tmp_path: Path) -> None:
        process = start(HOLDS, tmp_path)
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        with Cache(tmp_path).workspace():
            assert left.is_dir()  # it lives
        assert Cache(tmp_path).rows()[0].open
        process.kill()
        process.wait(60)
        cache._swept.clear()
        with Cache(tmp_path).workspace():
            assert not left.exists()
        assert not Cache(tmp_path).rows()[0].open
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()

    def test_a_forked_child_leaves_the_folder_to_its_parent(self, tmp_path: Path) -> None:
        code = """
            import os, sys
            from aneforge.cache import workspace
            with workspace(sys.argv[1]) as folder:
                child = os.fork()
                if child:
                    os.waitpid(child, 0)
                    assert folder.is_dir()
        """
        assert start(code, tmp_path).wait(60) == 0
        assert files(tmp_path) == []


class TestKeysAndPlaces:
    def test_keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        keys = {cache.key("ab", "c"), cache.key("a", "bc"), cache.key("abc"), cache.key(b"abd"), cache.key()}
        assert len(keys) == 5
        assert cache.key("abc") == cache.key(memoryview(b"abc"))
        before = cache.key("abc")
        monkeypatch.setattr(cache, "system_build", lambda: "25C56")
        assert cache.key("abc") != before
        monkeypatch.setattr(cache, "__version__", "9.9")
        assert len({before, cache.key("abc")}) == 2
        assert cache.system_build()

    def test_default_places(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setattr(cache.sys, "platform", "linux")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert cache.default_root() == tmp_path / "xdg" / "aneforge"
        for ignored in ("", "relative"):
            monkeypatch.setenv("XDG_CACHE_HOME", ignored)
            assert cache.default_root() == tmp_path / ".cache" / "aneforge"
        monkeypatch.setattr(cache.sys, "platform", "darwin")
        assert cache.default_root() == tmp_path / "Library" / "Caches" / "aneforge"
        assert list(tmp_path.iterdir()) == []


class TestCommand:
    def test_path_list_clear(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        place = ("--cache-dir", str(tmp_path / "c"))
        assert cli.main(["cache", "path", *place]) == 0
        assert capsys.readouterr().out == f"{tmp_path / 'c'}\n"
        assert cli.main(["cache", "clear", *place]) == 0
        assert not (tmp_path / "c").exists()
        Cache(tmp_path / "c").entry("coreml", "a", fill(1234)).close()
        capsys.readouterr()
        assert cli.main(["cache", "list", *place]) == 0
        assert "1 entries, 1,234 bytes" in capsys.readouterr().out
        assert cli.main(["cache", "list", "--json", *place]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["schema_version"] == 1
        assert [(e["kind"], e["key"], e["bytes"], e["open"]) for e in told["entries"]] == [("coreml", "a", 1234, False)]
        assert abs(told["entries"][0]["used"] - time.time()) < 600
        with Cache(tmp_path / "c").entry("coreml", "a", fill(1)):
            assert cli.main(["cache", "clear", *place]) == 0
            assert capsys.readouterr().out == "0 bytes removed; 1 entries are in use and stay\n"
        assert cli.main(["cache", "clear", "--json", *place]) == 0
        assert json.loads(capsys.readouterr().out)["removed_bytes"] == 1234
