"""The protobuf wire format, as far as writing needs it (protobuf.dev, "Encoding")."""

from __future__ import annotations

from collections.abc import Iterable

_VARINT, _LENGTH = 0, 2


def varint(value: int) -> bytes:
    """Seven bits a byte, low ones first; a negative number as its 64-bit two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """An integer field."""
    return varint(field << 3 | _VARINT) + varint(value)


def raw(field: int, body: bytes) -> bytes:
    """A bytes field, or packed numbers already laid out."""
    return varint(field << 3 | _LENGTH) + varint(len(body)) + body


block = raw  # a message within a message looks the same


def text(field: int, value: str) -> bytes:
    """A string field."""
    return raw(field, value.encode())


def packed(field: int, values: Iterable[int]) -> bytes:
    """A repeated integer field."""
    return raw(field, b"".join(map(varint, values)))


def entry(field: int, key: str, body: bytes) -> bytes:
    """One entry of a map from strings to messages."""
    return raw(field, text(1, key) + raw(2, body))


def join(parts: Iterable[bytes]) -> bytes:
    return b"".join(parts)
