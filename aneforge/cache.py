"""Where files live: the user's cache folder, and nothing anywhere else.

    <root>/store/<kind>/<key>/          what was compiled, by content: whole or not there, never moved
    <root>/work/<machine>/<pid>-xxxxxx/ private to a process; gone when it is done, swept when it died
    <root>/locks/                       empty files that processes lock

Many processes share a folder. A lock is held by the kernel and falls with its process, however that ends.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from . import __version__

LIMIT = 4 << 30
"""Bytes that a store may hold; the least recently used entries go first."""


@dataclass(frozen=True)
class Row:
    """One entry of a store. `used`: seconds since 1970. `open`: a process has it."""

    kind: str
    key: str
    size: int
    used: float
    open: bool


class Entry:
    """A folder of the store that stays as long as this object is open. Closed with its process at the latest."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Entry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class Cache:
    """One cache folder. Nothing is made on disk before something is kept.

    Args:
        root: empty: the user's (`default_root`).
        limit: bytes of the store beyond which entries that nobody has open are removed.
    """

    def __init__(self, root: str | os.PathLike[str] = "", limit: int = LIMIT) -> None:
        self.root = Path(root).expanduser().absolute() if root else default_root()
        self.limit = limit

    # ---------------------------------------------------------------- the store

    def entry(self, kind: str, key: str, make: Callable[[Path], None]) -> Entry:
        """The folder of a key. If it is not there, `make(folder)` fills a fresh one, which then appears whole.

        Of several processes that want a key, one makes it and the others wait.

        Raises:
            OSError: the folder cannot be written. Whatever `make` raises; nothing is kept then.
        """
        place = self.root / "store" / kind / key
        lock, fresh = self._lock(kind, key), False
        try:
            while True:
                fcntl.flock(lock, fcntl.LOCK_SH)
                if place.is_dir():
                    break
                # The kernel lets go of one kind before it waits for the other: somebody else may have been faster.
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not place.is_dir():
                    self._make(place, make)
                    fresh = True
            os.utime(place)
        except BaseException:
            os.close(lock)
            raise
        if fresh:
            self.shrink()
        return Entry(place, lock)

    def _make(self, place: Path, make: Callable[[Path], None]) -> None:
        with self.workspace() as folder:
            made = folder / "made"
            made.mkdir()
            make(made)
            _private(place.parent)
            made.rename(place)

    def drop(self, kind: str, key: str) -> bool:
        """Removes an entry that turned out useless. False: another process has it open."""
        return self._removed(kind, key)

    def rows(self) -> list[Row]:
        """What is in the store, the least recently used first."""
        found = []
        for place in self._places():
            kind, key = place.parent.name, place.name
            with suppress(FileNotFoundError):
                found.append(Row(kind, key, _size(place), place.stat().st_mtime, self._is_open(kind, key)))
        return sorted(found, key=lambda row: row.used)

    def shrink(self, limit: int | None = None) -> int:
        """Removes the least recently used entries until the store is within its limit; returns the bytes removed.
        What a process has open stays, over the limit if need be."""
        limit, freed = self.limit if limit is None else limit, 0
        rows = self.rows()
        total = sum(row.size for row in rows)
        for row in rows:
            if total <= limit:
                break
            if self._removed(row.kind, row.key):
                total, freed = total - row.size, freed + row.size
        return freed

    def clear(self) -> tuple[int, int]:
        """Removes every entry that no process has open, and what dead processes left: bytes removed, entries kept."""
        self.sweep()
        freed = self.shrink(-1)
        return freed, len(self.rows())

    def _removed(self, kind: str, key: str) -> bool:
        lock = self._lock(kind, key)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            place = self.root / "store" / kind / key
            # Renamed first: nobody sees half an entry, and a killed process leaves its rest where it is swept.
            with self.workspace() as folder, suppress(FileNotFoundError):
                place.rename(folder / "gone")
        except BlockingIOError:
            return False
        else:
            return True
        finally:
            os.close(lock)

    def _is_open(self, kind: str, key: str) -> bool:
        lock = self._lock(kind, key)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(lock)

    def _lock(self, kind: str, key: str) -> int:
        """An open file to lock. The files stay: to remove one would part those who wait for it from those who come."""
        _private(self.root / "locks")
        return os.open(self.root / "locks" / f"{kind}-{key}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _places(self) -> list[Path]:
        return [place for place in (self.root / "store").glob("*/*") if place.is_dir()]

    # ---------------------------------------------------------------- private folders

    @property
    def work(self) -> Path:
        """Where the private folders of this machine's processes stand. A home may be shared: process numbers are not."""
        return self.root / "work" / hashlib.sha256(os.uname().nodename.encode()).hexdigest()[:12]

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """A fresh folder, readable by the user alone, that is gone afterwards. What processes left that died is swept
        when a process makes its first one."""
        _private(self.work)
        if (self.work, os.getpid()) not in _swept:
            _swept.add((self.work, os.getpid()))
            self.sweep()
        owner = os.getpid()
        folder = Path(tempfile.mkdtemp(prefix=f"{owner}-", dir=self.work))
        try:
            yield folder
        finally:
            if os.getpid() == owner:  # a forked child's parent may still need it
                shutil.rmtree(folder, ignore_errors=True)

    def sweep(self) -> None:
        """Removes the private folders of processes that are no more."""
        if not self.work.is_dir():
            return
        for folder in list(self.work.iterdir()):
            pid = folder.name.partition("-")[0]
            if pid.isdecimal() and not _alive(int(pid)):
                shutil.rmtree(folder, ignore_errors=True)


_swept: set[tuple[Path, int]] = set()


def workspace(root: str | os.PathLike[str] = "") -> AbstractContextManager[Path]:
    """A private folder for this process in the cache folder, as a context manager. See `Cache.workspace`."""
    return Cache(root).workspace()


def default_root() -> Path:
    """The user's: ~/Library/Caches/aneforge on macOS, $XDG_CACHE_HOME/aneforge or ~/.cache/aneforge elsewhere."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "aneforge"
    named = os.environ.get("XDG_CACHE_HOME", "")
    # the specification: a path that is not absolute is to be ignored
    return (Path(named) if os.path.isabs(named) else Path.home() / ".cache") / "aneforge"


def key(*parts: str | bytes | memoryview) -> str:
    """A name for what is made of `parts` by this version of ours on this build of the system."""
    digest = hashlib.sha256()
    for part in (__version__, system_build(), *parts):
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:40]


def system_build() -> str:
    """The build of the operating system, such as 25C56: compilers of programs come and go with it."""
    if sys.platform == "darwin":
        size, name = ctypes.c_size_t(64), ctypes.create_string_buffer(64)
        libc = ctypes.CDLL(None)
        if libc.sysctlbyname(b"kern.osversion", name, ctypes.byref(size), None, ctypes.c_size_t(0)) == 0:
            return name.value.decode()
    return os.uname().version


def _private(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _size(folder: Path) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(path, name)).st_size
    return total
