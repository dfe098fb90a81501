"""Which chip a machine has, from readings: real brand strings, a translated process, a virtual machine, the unknown."""

import pytest

from aneforge.targets import chip, resolve
from aneforge.targets.chip import Readings, identify, read


def mac(brand, **more):
    return Readings("darwin", more.pop("machine", "arm64"), brand, arm64=1, translated=0, guest=0, **more)


@pytest.mark.parametrize(
    ("brand", "target"),
    [
        ("Apple M1", "h13"),
        ("Apple M1 Pro", "h13g"),
        ("Apple M1 Max", "h13g"),
        ("Apple M1 Ultra", "h13g"),
        ("Apple M2 Pro", "h14"),
        ("Apple M3", "h15"),
        ("Apple M4 Max", "h16s"),
        ("Apple M5", "h17s"),
        ("Apple M5 Pro", "h17s"),
    ],
)
def test_brand_strings(brand, target):
    found = identify(mac(brand))
    assert (found.name, found.target, found.note, found.has_engine) == (brand, target, "", True)
    assert resolve(target).family == resolve(f"m{brand.split()[1][1]}").family


@pytest.mark.parametrize("brand", ["Apple M6", "Apple M12 Pro", "Apple A18 Pro", "", "Apple M"])
def test_unknown_chips_are_taken_for_the_least(brand):
    found = identify(mac(brand))
    assert found.target == "h13"
    assert "not a chip that this release knows" in found.note


@pytest.mark.parametrize(
    ("readings", "rosetta", "virtual", "word"),
    [
        (Readings("darwin", "x86_64", "VirtualApple @ 2.50GHz", 1, 1, 0), True, False, "Rosetta"),
        (Readings("darwin", "x86_64", "Apple M2", 1, 1, 0), True, False, "Rosetta"),
        (Readings("darwin", "arm64", "Apple M1 (Virtual)", 1, 0, 1), False, True, "virtual machine"),
        (Readings("darwin", "arm64", "Apple processor", 1, 0, None), False, True, "virtual machine"),
        (Readings("darwin", "arm64", "Apple M4", 1, 0, 1), False, True, "virtual machine"),
        (Readings("darwin", "x86_64", "Intel(R) Core(TM) i7", None, None, 0), False, False, "Intel"),
        (Readings("linux", "x86_64"), False, False, "emulated"),
    ],
)
def test_what_is_in_the_way_is_named(readings, rosetta, virtual, word):
    found = identify(readings)
    assert (found.rosetta, found.virtual) == (rosetta, virtual)
    assert word in found.note
    assert not found.has_engine


def test_readings_come_from_sysctl(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    answers = {"machdep.cpu.brand_string": "Apple M3 Max", "hw.optional.arm64": 1, "sysctl.proc_translated": 0}
    assert read(answers.get) == Readings("darwin", "arm64", "Apple M3 Max", 1, 0, None)
    assert read({}.get) == Readings("darwin", "arm64")


def test_auto_is_this_machine(monkeypatch):
    resolve.cache_clear()
    monkeypatch.setattr(chip, "here", lambda: identify(mac("Apple M5 Pro")))
    try:
        assert resolve("auto").name == "h17s"
        resolve.cache_clear()
        monkeypatch.setattr(chip, "here", lambda: identify(Readings("linux", "x86_64")))
        assert resolve("auto").name == "h13"
    finally:
        resolve.cache_clear()
