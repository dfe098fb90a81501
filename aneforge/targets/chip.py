"""Which chip this machine has: read from the system, or from readings that somebody sends.

The brand string decides ("Apple M5 Pro"); the model name does not (a MacBookPro17,1 is an M1). What is not known for
certain is taken for the floor, H13: a program that is legal there runs on every engine.
"""

from __future__ import annotations

import ctypes
import platform
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

_BRAND = re.compile(r"Apple M(\d+)(?: (Pro|Max|Ultra))?\b", re.IGNORECASE)
_GENERATIONS = range(1, 6)


@dataclass(frozen=True)
class Readings:
    """What a system says of itself. Numbers are None where it does not know the name.

    Attributes:
        system: as `sys.platform`, "darwin" on macOS.
        machine: as `platform.machine()`, "arm64" or "x86_64".
        brand: machdep.cpu.brand_string.
        arm64: hw.optional.arm64, 1 on Apple silicon, also for a translated process.
        translated: sysctl.proc_translated, 1 in a process that Rosetta translates.
        guest: kern.hv_vmm_present, 1 in a virtual machine.
    """

    system: str
    machine: str
    brand: str = ""
    arm64: int | None = None
    translated: int | None = None
    guest: int | None = None


@dataclass(frozen=True)
class Chip:
    """What the readings mean.

    Attributes:
        name: for people, "Apple M5 Pro".
        target: the compiler's string for its engine; the floor where the chip is unknown; "" without an engine.
        rosetta, virtual: the process is translated; the machine is virtual.
        note: a sentence where something is in the way or not known; else "".
    """

    name: str
    target: str
    rosetta: bool = False
    virtual: bool = False
    note: str = ""

    @property
    def has_engine(self) -> bool:
        """Whether this process may try the engine. A virtual machine may not: nobody has seen one that has it."""
        return bool(self.target) and not self.rosetta and not self.virtual


def read(sysctl: Callable[[str], str | int | None] | None = None) -> Readings:
    """The readings of this machine; `sysctl` answers for a name, None where there is none."""
    system, machine = sys.platform, platform.machine()
    if system != "darwin":
        return Readings(system, machine, platform.processor())
    ask = sysctl or _sysctl

    def number(name: str) -> int | None:
        value = ask(name)
        return value if isinstance(value, int) else None

    brand = ask("machdep.cpu.brand_string")
    return Readings(
        system,
        machine,
        brand if isinstance(brand, str) else "",
        number("hw.optional.arm64"),
        number("sysctl.proc_translated"),
        number("kern.hv_vmm_present"),
    )


def identify(readings: Readings) -> Chip:
    """What chip the readings name, and whether its engine can be reached from this process."""
    name = readings.brand or readings.machine or "unknown processor"
    if readings.system != "darwin":
        return Chip(name, "", note=f"{readings.system} has no Neural Engine; programs are emulated on the host")
    virtual = bool(readings.guest) or "virtual" in name.lower() or name.lower().startswith("apple processor")
    # Rosetta hides the chip: the brand string of a translated process reads "VirtualApple @ 2.50GHz".
    rosetta = bool(readings.translated) or name.lower().startswith("virtualapple")
    if rosetta:
        virtual = bool(readings.guest)
    if not rosetta and readings.machine != "arm64":
        return Chip(name, "", virtual=virtual, note="a Mac with an Intel processor has no Neural Engine")
    known = _BRAND.search(name)
    generation = int(known.group(1)) if known else 0
    if known is None or generation not in _GENERATIONS:
        target = "h13"
        note = f"{name!r} is not a chip that this release knows: its engine is taken for that of M1, the least of all"
    else:
        # The suffix of a chip counts cores and changes nothing else; only the first generation was measured apart.
        target = "h13g" if generation == 1 and known.group(2) else ("h13", "h14", "h15", "h16s", "h17s")[generation - 1]
        note = ""
    if rosetta:
        note = "this Python is translated by Rosetta, from where the engine is out of reach: use a Python for arm64"
    elif virtual:
        note = "this is a virtual machine: macOS does not show the engine to its guests"
    return Chip(name, target, rosetta, virtual, note)


@cache
def here() -> Chip:
    """The chip of this machine."""
    return identify(read())


def _sysctl(name: str) -> str | int | None:
    """sysctlbyname: a number of 4 or 8 bytes, or a text; None where the name is unknown."""
    call = ctypes.CDLL(None).sysctlbyname
    size = ctypes.c_size_t()
    if call(name.encode(), None, ctypes.byref(size), None, ctypes.c_size_t(0)):
        return None
    room = ctypes.create_string_buffer(size.value + 1)
    if call(name.encode(), room, ctypes.byref(size), None, ctypes.c_size_t(0)):
        return None
    raw = room.raw[: size.value]
    if name.endswith("_string"):
        return raw.split(b"\0", 1)[0].decode(errors="replace")
    return int.from_bytes(raw, sys.byteorder) if size.value in (4, 8) else None
