"""The function table in native/ep/ort_api.h against the installed onnxruntime.

The header is the only place that knows positions; it is read here as data. Functions that need no session are called;
those that do are used by the sessions of test_ep_sessions.py.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import NamedTuple

import onnxruntime
import pytest

HEADER_FILE = Path(__file__).resolve().parents[2] / "native" / "ep" / "ort_api.h"
if not HEADER_FILE.exists():
    pytest.skip("needs the source tree", allow_module_level=True)
HEADER = HEADER_FILE.read_text()


class Slot(NamedTuple):
    name: str
    position: int
    since: int


def table(macro: str) -> list[Slot]:
    body = HEADER[HEADER.index(f"#define {macro}(X)") :].split("\n\n")[0]
    rows = re.findall(r"\bX\((\w+),\s*(\d+),\s*(\d+),", body.replace("\\\n", " "))
    return [Slot(name, int(position), int(since)) for name, position, since in rows]


def constant(name: str) -> int:
    found = re.search(rf"constexpr uint32_t {name} =\s*(\d+);", HEADER)
    assert found, name
    return int(found[1])


API, EP_API = table("ANEFORGE_ORT_API"), table("ANEFORGE_ORT_EP_API")
OLDEST, NEWEST = constant("kOldestOrt"), constant("kNewestOrt")


class ApiBase(ctypes.Structure):
    _fields_ = [("get_api", ctypes.CFUNCTYPE(c_void_p, c_uint32)), ("get_version", ctypes.CFUNCTYPE(c_char_p))]


class DlInfo(ctypes.Structure):
    _fields_ = [("file", c_char_p), ("base", c_void_p), ("symbol", c_char_p), ("address", c_void_p)]


def library() -> Path:
    """The C library inside the onnxruntime wheel: the same code as the Python module's."""
    folder = Path(onnxruntime.__file__).parent / "capi"
    found = sorted(folder.glob("libonnxruntime.so*")) + sorted(folder.glob("libonnxruntime*.dylib"))
    if not found:
        pytest.skip("this onnxruntime ships no C library")
    return found[0]


@pytest.fixture(scope="module")
def api() -> c_void_p:
    lib = ctypes.CDLL(str(library()))
    lib.OrtGetApiBase.restype = POINTER(ApiBase)
    base = lib.OrtGetApiBase().contents
    minor = int(base.get_version().split(b".")[1])
    assert minor >= OLDEST
    address = base.get_api(min(minor, NEWEST))
    assert address
    return c_void_p(address)


def call(table_address: c_void_p, slots: list[Slot], name: str, result: object, *types: object) -> object:
    position = next(s.position for s in slots if s.name == name)
    pointers = ctypes.cast(table_address, POINTER(c_void_p))
    return ctypes.CFUNCTYPE(result, *types)(pointers[position])


@pytest.mark.parametrize("slots", [API, EP_API], ids=["OrtApi", "OrtEpApi"])
def test_table_is_well_formed(slots: list[Slot]) -> None:
    assert slots
    assert len({s.name for s in slots}) == len({s.position for s in slots}) == len(slots)
    assert [s.position for s in slots] == sorted(s.position for s in slots)
    # No slot may be younger than the oldest onnxruntime that is accepted: members are used without asking.
    assert max(s.since for s in slots) <= OLDEST <= NEWEST
    # Slots are only ever appended.
    assert [s.since for s in slots] == sorted(s.since for s in slots)


@pytest.mark.skipif(sys.platform == "win32", reason="dladdr")
@pytest.mark.parametrize("which", ["OrtApi", "OrtEpApi"])
def test_every_slot_is_a_function_of_onnxruntime(api: c_void_p, which: str) -> None:
    slots, address = API, api
    if which == "OrtEpApi":
        slots, address = EP_API, c_void_p(call(api, API, "GetEpApi", c_void_p)())
    pointers = ctypes.cast(address, POINTER(c_void_p))
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = [c_void_p, POINTER(DlInfo)]
    for slot in slots:
        info = DlInfo()
        assert pointers[slot.position], slot
        assert dladdr(pointers[slot.position], ctypes.byref(info)), slot
        assert info.file and "onnxruntime" in os.path.basename(os.fsdecode(info.file)), slot


def test_status_slots(api: c_void_p) -> None:
    status = call(api, API, "CreateStatus", c_void_p, c_int, c_char_p)(2, b"what is wrong")
    assert call(api, API, "GetErrorCode", c_int, c_void_p)(status) == 2
    assert call(api, API, "GetErrorMessage", c_char_p, c_void_p)(status) == b"what is wrong"
    call(api, API, "ReleaseStatus", None, c_void_p)(status)


def test_key_value_slots(api: c_void_p) -> None:
    pairs = c_void_p()
    call(api, API, "CreateKeyValuePairs", None, POINTER(c_void_p))(ctypes.byref(pairs))
    add = call(api, API, "AddKeyValuePair", None, c_void_p, c_char_p, c_char_p)
    add(pairs, b"one", b"1")
    add(pairs, b"two", b"2")
    assert call(api, API, "GetKeyValue", c_char_p, c_void_p, c_char_p)(pairs, b"two") == b"2"
    keys, values, count = POINTER(c_char_p)(), POINTER(c_char_p)(), c_size_t()
    call(api, API, "GetKeyValuePairs", None, c_void_p, c_void_p, c_void_p, c_void_p)(
        pairs, ctypes.byref(keys), ctypes.byref(values), ctypes.byref(count)
    )
    assert {keys[i]: values[i] for i in range(count.value)} == {b"one": b"1", b"two": b"2"}
    call(api, API, "ReleaseKeyValuePairs", None, c_void_p)(pairs)


def test_build_info_slot(api: c_void_p) -> None:
    assert call(api, API, "GetBuildInfoString", c_char_p)().startswith(b"ORT Build Info")


def test_hardware_device_slots(api: c_void_p) -> None:
    ep_api = c_void_p(call(api, API, "GetEpApi", c_void_p)())
    device = c_void_p()
    create = call(
        ep_api,
        EP_API,
        "CreateHardwareDevice",
        c_void_p,
        c_int,
        c_uint32,
        c_uint32,
        c_char_p,
        c_void_p,
        POINTER(c_void_p),
    )
    assert create(2, 0x106B, 7, b"a name", None, ctypes.byref(device)) is None
    assert call(api, API, "HardwareDevice_Type", c_int, c_void_p)(device) == 2
    assert call(api, API, "HardwareDevice_VendorId", c_uint32, c_void_p)(device) == 0x106B
    assert call(api, API, "HardwareDevice_Vendor", c_char_p, c_void_p)(device) == b"a name"
    call(ep_api, EP_API, "ReleaseHardwareDevice", None, c_void_p)(device)
