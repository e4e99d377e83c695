"""The checksum of each replicated parameter, moment by moment: the file in which a rank keeps them.

Blocks, one after the other, each of them whole or not there: the names of what is replicated, once, then
for each moment a number for each name. The writing side is :mod:`chaoskit.rank.parameters`. The reader
believes nothing, the names are the script's own: arbitrary bytes give fewer moments, never an exception.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

FILE: Final = "parameters.sums"
"""In ``rank<N>/``."""
LIMIT_BYTES: Final = 4 * 1024 * 1024
"""What a rank writes; the check at the end may go beyond it by one block."""
BLOCK_BYTES: Final = LIMIT_BYTES // 16
"""The longest block; what has more parameters than fit is not kept."""
READ_BYTES: Final = LIMIT_BYTES + 2 * BLOCK_BYTES
"""A longer file is none of chaoskit's; so much of it is read."""
MAGIC: Final = b"cksums\x01\n"
NAME_CHARS: Final = 200
_BLOCK: Final = struct.Struct("<II")  # bytes that follow, their CRC-32
_NAMES: Final = struct.Struct("<cxxxI")  # "N", number of these names
_MOMENT: Final = struct.Struct("<c?xxIQIIqQ")  # "M", final, names, step, ordinal, count, t_ns, checksum
_NS_PER_S: Final = 1e9


@dataclass(frozen=True, slots=True)
class Moment:
    """What a rank held after ``step`` updates; ``checksum`` is that of all ``numbers`` in order, as in
    :class:`~chaoskit.events.Replicated`."""

    t_s: float
    step: int
    ordinal: int
    final: bool
    checksum: int
    names: tuple[str, ...]
    numbers: tuple[int, ...]


def names_block(number: int, names: Sequence[str]) -> bytes:
    """Return the block that gives ``number`` to ``names``; without names where these are too long."""
    body = json.dumps([name[:NAME_CHARS] for name in names], separators=(",", ":")).encode()
    if len(body) > BLOCK_BYTES - _NAMES.size:
        body = b"[]"
    return _block(_NAMES.pack(b"N", number & 0xFFFF_FFFF) + body)


def moment_block(
    names: int, t_ns: int, step: int, ordinal: int, final: bool, checksum: int, numbers: Sequence[int]
) -> bytes:
    """Return the block of one moment. Raises struct.error where a number does not fit into its field."""
    head = _MOMENT.pack(b"M", final, names, step, ordinal, len(numbers), t_ns, checksum)
    return _block(head + struct.pack(f"<{len(numbers)}Q", *numbers))


def moments(body: bytes) -> Iterator[Moment]:
    """Yield what is whole in the bytes of a file, up to the first damage."""
    known: dict[int, tuple[str, ...]] = {}
    for block in _blocks(body):
        if block[:1] == b"N" and len(block) >= _NAMES.size:
            known[_NAMES.unpack_from(block)[1]] = _parsed(block[_NAMES.size :])
        elif block[:1] == b"M" and (found := _moment(block, known)) is not None:
            yield found


def _block(body: bytes) -> bytes:
    return _BLOCK.pack(len(body), zlib.crc32(body)) + body


def _blocks(body: bytes) -> Iterator[bytes]:
    if not body.startswith(MAGIC):
        return
    at = len(MAGIC)
    while at + _BLOCK.size <= len(body):
        size, sum_of_it = _BLOCK.unpack_from(body, at)
        at += _BLOCK.size
        block = body[at : at + size] if size <= BLOCK_BYTES else b""
        if len(block) != size or zlib.crc32(block) != sum_of_it:
            return
        yield block
        at += size


def _moment(block: bytes, known: dict[int, tuple[str, ...]]) -> Moment | None:
    if len(block) < _MOMENT.size:
        return None
    _, final, names, step, ordinal, count, t_ns, checksum = _MOMENT.unpack_from(block)
    if len(block) != _MOMENT.size + 8 * count:
        return None
    numbers = struct.unpack_from(f"<{count}Q", block, _MOMENT.size)
    named = known.get(names, ())
    if len(named) != count:
        named = tuple(f"parameter {index}" for index in range(count))
    return Moment(t_ns / _NS_PER_S, step, ordinal, final, checksum, named, numbers)


def _parsed(body: bytes) -> tuple[str, ...]:
    """The names, printable and each of them once."""
    try:
        raw = json.loads(body)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(raw, list) or not all(isinstance(name, str) for name in raw):
        return ()
    names = [_printable(name) for name in raw]
    if len(set(names)) == len(names):
        return tuple(names)
    return tuple(f"{name} [{index}]" for index, name in enumerate(names))


def _printable(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name[:NAME_CHARS]) or "?"
