"""A matrix as JSON: every field of its values, and the figures that people would reckon from them."""

from __future__ import annotations

import json

from chaoskit import codec
from chaoskit.matrix.values import Matrix
from chaoskit.reports.matrix.exit_code import exit_code
from chaoskit.reports.matrix.words import counts, never, replaceable

SCHEMA_VERSION = 1


def render(matrix: Matrix) -> str:
    """Return the text of matrix.json."""
    effort = matrix.effort
    body = {
        "schema_version": SCHEMA_VERSION,
        "exit_code": int(exit_code(matrix)),
        "counts": codec.encode(counts(matrix)),
        "columns": [column.name for column in matrix.columns],
        "never_matter": list(never(matrix)),
        "replaceable": list(replaceable(matrix)),
        "faster_than_in_a_row": round(effort.sum_s / effort.wall_s, 2) if effort.wall_s else None,
        **codec.encode(matrix),
    }
    return json.dumps(body, indent=1, allow_nan=False) + "\n"
