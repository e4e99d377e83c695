"""A matrix as JSON: every field of its values, and the figures that people would reckon from them."""

from __future__ import annotations

import json

from chaoskit import codec
from chaoskit.matrix.values import Matrix
from chaoskit.reports.matrix.exit_code import exit_code
from chaoskit.reports.matrix.words import counts, faster, never, replaceable

SCHEMA_VERSION = 1


def render(matrix: Matrix) -> str:
    """Return the text of matrix.json."""
    ratio = faster(matrix)
    body = {
        "schema_version": SCHEMA_VERSION,
        "exit_code": int(exit_code(matrix)),
        "not_known": matrix.not_known or None,
        "counts": None if matrix.not_known else codec.encode(counts(matrix)),
        "columns": [column.name for column in matrix.columns],
        "never_matter": list(never(matrix)),
        "replaceable": list(replaceable(matrix)),
        "faster_than_in_a_row": None if ratio is None else round(ratio, 2),
        **codec.encode(matrix),
    }
    return json.dumps(body, indent=1, allow_nan=False) + "\n"
