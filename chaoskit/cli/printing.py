"""What the commands print with: plain text, JSON, complaints. Control characters of files never get out."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from chaoskit.errors import ChaoskitError

if TYPE_CHECKING:
    from chaoskit.model import JsonValue  # its dataclasses take 30 ms to make, a fifth of the budget

_HARMFUL = {
    code: None
    for code in (
        *range(32),
        *range(127, 160),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
        *range(0xD800, 0xE000),
    )
    if chr(code) not in "\n\t"
}


def plain(text: str) -> str:
    """Return ``text`` without what could command a terminal, or turn its writing around."""
    return text.translate(_HARMFUL)


def say(text: str = "") -> None:
    """Print ``text`` to stdout. Raises BrokenPipeError, or ChaoskitError where it cannot be written."""
    _say(plain(text))


def say_json(value: JsonValue) -> None:
    """Print ``value`` to stdout as JSON. Raises as :func:`say`."""
    import json

    _say(json.dumps(value, indent=2, allow_nan=False))


def _say(text: str) -> None:
    try:
        _write(sys.stdout, text)
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon_output()
        raise ChaoskitError(f"the output could not be written: {error.strerror or error}") from None


def complain(text: str) -> None:
    """Print ``text`` to stderr, whatever state it is in."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, full, or None
        _write(sys.stderr, plain(text))
        sys.stderr.flush()


def _write(stream: object, text: str) -> None:
    if stream is None:  # closed before Python started
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), file=stream)  # type: ignore[call-overload]


def abandon_output() -> None:
    """Send what is still buffered nowhere, or Python complains about it at its exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def report_internal(error: BaseException, *, with_traceback: bool) -> None:
    """Say in one line that chaoskit itself failed, and where the details are."""
    import traceback

    details = "".join(traceback.format_exception(error))
    if with_traceback:
        complain(details)
    summary = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    where = "" if with_traceback else _keep(details)
    complain(f"chaoskit: an error of chaoskit itself: {summary}{where}")


def _keep(details: str) -> str:
    import tempfile

    from chaoskit.redacting import Redactor

    details = Redactor.of(os.environ, words=sys.argv).text(details)
    try:
        handle, path = tempfile.mkstemp(prefix="chaoskit-error-", suffix=".txt")
        with open(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(details)
    except OSError:
        return " (--traceback shows the details)"
    return f" (details: {path})"
