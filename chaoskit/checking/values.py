"""How each kind of value is read, and what is wrong with one. Pure: a text in, a complaint or nothing out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from chaoskit.checking.family import shown
from chaoskit.checking.finding import Level
from chaoskit.profiles.nccl import NcclVariable
from chaoskit.profiles.variable import EnvVariable, Kind

Known = EnvVariable | NcclVariable

_FLAGS: Final = frozenset("y yes 1 t true n no 0 f false".split())
_STOI: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)(.*)", re.DOTALL)
_STRTOLL: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+))(.*)", re.DOTALL)
_INT_MAX: Final = 2**31 - 1
_DIGITS_MAX: Final = 18
_PORT_MAX: Final = 65_535
_DURATIONS: Final = {"ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_NOT_A_NAME: Final = re.compile(r"[\^=*\s/:]")


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong with a value."""

    level: Level
    message: str
    hint: str = ""


def wrong_with(variable: Known, value: str) -> Wrong | None:
    """Return what is wrong with ``value`` for ``variable``; None where nothing is, or nothing is known."""
    read = _READERS.get(variable.kind)
    return None if read is None else read(variable, value)


def _flag(variable: Known, value: str) -> Wrong | None:
    if value.lower() in _FLAGS:
        return None
    return Wrong(Level.ERROR, f"{shown(value)} raises when the process group forms", "write 1 or 0")


def _int(variable: Known, value: str) -> Wrong | None:
    match = _STOI.fullmatch(value)
    number = None if match is None else _number(match[1])
    if match is None or number is None or abs(number) > _INT_MAX:
        return Wrong(
            Level.ERROR, f"{shown(value)} raises when the process group forms", f"write {_wanted(variable)}"
        )
    rest = match[2].strip()
    if rest:
        message = (
            f"{shown(value)} is read as {number}{_in_unit(variable)}: what follows the digits is ignored"
        )
        return Wrong(Level.ERROR, message, _converted(variable, number, rest))
    return _out_of_range(variable, number)


def _number(digits: str) -> int | None:
    """Return the number that ASCII digits stand for; None where it is too long to be any."""
    sign, bare = digits[:1] == "-", digits.lstrip("+-").lstrip("0")
    if len(bare) > _DIGITS_MAX:
        return None
    return -int(bare or "0") if sign else int(bare or "0")


def _out_of_range(variable: Known, number: int) -> Wrong | None:
    low, high = getattr(variable, "low", None), getattr(variable, "high", None)
    if (low is None or number >= low) and (high is None or number <= high):
        return None
    return Wrong(Level.ERROR, f"{number} is no value that it knows", f"write {_wanted(variable)}")


def _wanted(variable: Known) -> str:
    low, high = getattr(variable, "low", None), getattr(variable, "high", None)
    unit = {"s": " of seconds", "ms": " of milliseconds"}.get(getattr(variable, "unit", ""), "")
    if high is not None:
        return f"a whole number from {low or 0} to {high}"
    return f"a whole number{unit}" + (f" from {low} on" if low else "")


def _in_unit(variable: Known) -> str:
    unit = getattr(variable, "unit", "")
    return f" {unit}" if unit else ""


def _converted(variable: Known, number: int, rest: str) -> str:
    unit = getattr(variable, "unit", "")
    if rest.lower() in _DURATIONS and unit:
        seconds = number * _DURATIONS[rest.lower()]
        return f"write {round(seconds * (1000 if unit == 'ms' else 1))}"
    return f"write {_wanted(variable)}"


def _word(variable: Known, value: str) -> Wrong | None:
    if value.upper() in variable.words:
        return None
    return Wrong(Level.ERROR, f"{shown(value)} raises when torch is imported", f"one of {_list(variable)}")


def _nccl_word(variable: Known, value: str) -> Wrong | None:
    if not value or value.upper() in variable.words:
        return None
    return Wrong(
        Level.WARNING, f"NCCL does not know {shown(value)} and ignores it", f"one of {_list(variable)}"
    )


def _list(variable: Known) -> str:
    return ", ".join(variable.words)


def _nccl_int(variable: Known, value: str) -> Wrong | None:
    if not value:
        return None
    match = _STRTOLL.fullmatch(value)
    if match is None:
        return Wrong(
            Level.ERROR, f"{shown(value)} is no number: NCCL reads it as 0, without a word", _as_int(value)
        )
    if match[2].strip():
        message = f"{shown(value)} is read as {shown(match[1])[1:-1]}: what follows the digits is ignored"
        return Wrong(Level.ERROR, message, "write a whole number")
    return None


def _nccl_list(variable: Known, value: str) -> Wrong | None:
    return _unknown_words(variable, value, value.removeprefix("^").split(","))


def _nccl_functions(variable: Known, value: str) -> Wrong | None:
    given = [part.rpartition(":")[2].removeprefix("^") for part in value.split(";")]
    return _unknown_words(variable, value, [word for part in given for word in part.split(",")])


def _unknown_words(variable: Known, value: str, given: list[str]) -> Wrong | None:
    known = {word.upper() for word in variable.words}
    strange = [word for word in given if word and word.upper() not in known]
    if not strange:
        return None
    return Wrong(
        Level.WARNING, f"NCCL does not know {shown(strange[0])}", f"some of {_list(variable)}, with commas"
    )


def _nccl_level(variable: Known, value: str) -> Wrong | None:
    if not value or value in variable.words or re.match(r"[0-9]", value):
        return None
    right = f"write {value.upper()}" if value.upper() in variable.words else f"one of {_list(variable)}"
    return Wrong(Level.WARNING, f"NCCL does not know {shown(value)} and ignores it", right)


def _port(variable: Known, value: str) -> Wrong | None:
    number = _number(value.strip()) if re.fullmatch(r"[0-9]+", value.strip()) else None
    if number is not None and number <= _PORT_MAX:
        return None
    return Wrong(Level.ERROR, f"{shown(value)} is no port", f"a whole number from 1 to {_PORT_MAX}")


def _as_int(value: str) -> str:
    return "write 1" if value.lower() in ("true", "yes", "on", "y", "t", "enable") else "write a whole number"


def _zero_or_one(variable: Known, value: str) -> Wrong | None:
    if value in ("0", "1"):
        return None
    return Wrong(Level.ERROR, f"{shown(value)} is ignored, with a warning in the log", "write 1 or 0")


def _only_one(variable: Known, value: str) -> Wrong | None:
    if value in ("0", "1", ""):
        return None
    return Wrong(Level.WARNING, f"{shown(value)} is read as off: only 1 turns it on", "write 1 or 0")


def _set_or_not(variable: Known, value: str) -> Wrong | None:
    if value.lower() not in ("0", "false", "no", "off"):
        return None
    return Wrong(Level.WARNING, f"any text turns it on, {shown(value)} too", "leave it out to turn it off")


def _gloo_interfaces(variable: Known, value: str) -> Wrong | None:
    strange = [name for name in value.split(",") if not name or _NOT_A_NAME.search(name)]
    if not strange:
        return None
    message = (
        f"gloo takes exact names of interfaces; {shown(strange[0])} is none, and forming the group fails"
    )
    return Wrong(Level.ERROR, message, "as eth0 or eth0,eth1 (^name, =name and prefixes are NCCL's)")


def _nccl_interfaces(variable: Known, value: str) -> Wrong | None:
    names = value.removeprefix("^").removeprefix("=").split(",")
    strange = [name for name in names if not name.strip() or "*" in name or name != name.strip()]
    if not value or not strange:
        return None
    message = f"{shown(strange[0] or value)} matches no interface: NCCL compares prefixes, to the letter"
    return Wrong(Level.WARNING, message, "as eth (a prefix), =eth0 (exactly), ^docker (all but), eth0,eth1")


def _threads(variable: Known, value: str) -> Wrong | None:
    parts = value.split(",")
    if all(part.strip().isascii() and part.strip().isdigit() and _number(part.strip()) for part in parts):
        return None
    return Wrong(Level.WARNING, f"{shown(value)} is no number of threads", "write a whole number from 1 on")


_READERS: Final[dict[Kind, Callable[[Known, str], Wrong | None]]] = {
    "torch-flag": _flag,
    "torch-int": _int,
    "torch-word": _word,
    "zero-or-one": _zero_or_one,
    "only-one": _only_one,
    "set-or-not": _set_or_not,
    "gloo-interfaces": _gloo_interfaces,
    "nccl-interfaces": _nccl_interfaces,
    "nccl-int": _nccl_int,
    "nccl-functions": _nccl_functions,
    "nccl-level": _nccl_level,
    "nccl-list": _nccl_list,
    "nccl-word": _nccl_word,
    "port": _port,
    "threads": _threads,
}
"""text is not checked."""
