"""The JSON object of ``chaoskit compare --format json``. Its shape is versioned: additive changes only."""

from __future__ import annotations

import json

from chaoskit import codec
from chaoskit.compare.comparison import Comparison
from chaoskit.errors import ExitCode

SCHEMA_VERSION = 1


def render(found: Comparison) -> str:
    """Return the object as JSON text with a final newline."""
    body = {
        "schema_version": SCHEMA_VERSION,
        **_object(found),
        "summary": {
            "broke": len(found.broke),
            "lost_sight_of": len(found.lost_sight_of),
            "now_failing": len(found.now_failing),
            "exit_code": int(exit_code(found)),
        },
    }
    return json.dumps(body, indent=2, allow_nan=False, ensure_ascii=True) + "\n"


def _object(found: Comparison) -> dict[str, object]:
    encoded = codec.encode(found)
    assert isinstance(encoded, dict)
    return {**encoded}


def exit_code(found: Comparison) -> ExitCode:
    """Return 1 where something that was held is not held now, and for nothing else."""
    return ExitCode.NOT_HELD if found.broke else ExitCode.OK
