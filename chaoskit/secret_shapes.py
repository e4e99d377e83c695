"""What well-known tokens, keys and logins look like, wherever they stand. Pure.

Each pattern is bounded, as it is used on what a rank has printed, and looked for only where its ``mark`` is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

HIDDEN: Final = "<redacted>"
LONGEST_SHAPE: Final = 4096
"""What is longer is hidden as far as this."""
URL_LOGIN: Final = re.compile(r"(?<=://)\S+(?=@)")
"""In the value of a variable: a token may stand alone, a password hold any sign."""


@dataclass(frozen=True)
class Shape:
    """``pattern`` matches what is hidden; of a match with the group ``kept``, that stays in front."""

    mark: str
    pattern: str

    def hide(self, text: str) -> str:
        return self._text.sub(_hidden, text) if self.mark in text else text

    def hide_in(self, data: bytes) -> bytes:
        return self._data.sub(_hidden_bytes, data) if self._mark in data else data

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield where each begins and ends."""
        if self._mark in data:
            yield from (match.span() for match in self._data.finditer(data))

    @cached_property
    def _mark(self) -> bytes:
        return self.mark.encode()

    @cached_property
    def _text(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.ASCII)

    @cached_property
    def _data(self) -> re.Pattern[bytes]:
        return re.compile(self.pattern.encode())


def _hidden(match: re.Match[str]) -> str:
    return (match.groupdict().get("kept") or "") + HIDDEN


def _hidden_bytes(match: re.Match[bytes]) -> bytes:
    return (match.groupdict().get("kept") or b"") + HIDDEN.encode()


_NAMES: Final = "TOKEN SECRET PASSWORD PASSWD API_KEY APIKEY ACCESS_KEY".split()
_OPTIONS: Final = "token|secret|password|passwd|passphrase|api[-_]?key|access[-_]?key|private[-_]?key"
_PEM: Final = r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----"
_PEM_END: Final = (
    r"(?:\s|\\[nr]){0,8}[A-Za-z0-9+/=]{0,200}(?:\s|\\[nr]){0,8}-----END [A-Z ]{0,40}PRIVATE KEY-----"
)
_PEM_LINES: Final = (
    r"(?:(?:\s|\\[nr]){1,4}[A-Z][A-Za-z-]{3,20}: [^\s\\]{1,80}){0,4}"
    r"(?:(?:\s|\\[nr]){1,8}[A-Za-z0-9+/=]{8,200}){0,200}"
)
_JWT: Final = "[A-Za-z0-9_-]"
_NUMBER_OR_OPTION: Final = r"\d{1,7}(?!\S)|-|<redacted>"

SHAPES: Final = (
    Shape("hf_", r"hf_(?:(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{10,200}|[A-Za-z]{24,200})"),
    *(Shape(f"gh{kind}_", rf"gh{kind}_[A-Za-z0-9]{{16,255}}") for kind in "pousr"),
    Shape("github_pat_", r"github_pat_[A-Za-z0-9_]{16,255}"),
    Shape("glpat-", r"glpat-[A-Za-z0-9_-]{16,255}"),
    Shape("AKIA", r"AKIA[A-Z0-9]{12,32}"),
    Shape("ASIA", r"ASIA[A-Z0-9]{16,32}"),
    Shape("AIza", r"AIza[A-Za-z0-9_-]{30,60}"),
    Shape("xox", r"xox[a-z]-[A-Za-z0-9-]{8,255}"),
    Shape("sk-", r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,255}"),
    Shape(
        "eyJ", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,1800}\.[A-Za-z0-9_-]{4,1800}(?:\.[A-Za-z0-9_-]{0,400})?"
    ),
    Shape("PRIVATE KEY-----", rf"{_PEM}{_PEM_LINES}(?:{_PEM_END})?"),
    Shape("earer ", r"(?P<kept>[Bb]earer )[A-Za-z0-9._~+/=-]{12,2000}"),
    Shape("uthorization: Basic ", r"(?P<kept>uthorization: Basic )[A-Za-z0-9+/=]{8,1000}"),
    Shape("://", r"(?P<kept>://)[^\s\"'<>/@:]{0,256}(?::(?:(?!://)[^\s\"'<>]){0,256})?(?=@)"),
    *(Shape(name, rf"(?P<kept>{name}[A-Z0-9_]{{0,30}}=['\"]?)[^\s'\"<]{{6,400}}") for name in _NAMES),
    Shape(
        "--",
        rf"(?P<kept>(?<!-)--[a-z0-9_-]{{0,24}}?(?:{_OPTIONS})[= ])(?!{_NUMBER_OR_OPTION})[^\s'\"]{{4,400}}",
    ),
)
