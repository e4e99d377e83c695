"""The JSON object of a cost. Its shape is versioned: additive changes only."""

from __future__ import annotations

import json

from chaoskit import codec
from chaoskit.cost.limit import exit_code, standing
from chaoskit.cost.sentence import by_treatment, is_extrapolated, sentence
from chaoskit.cost.telling import is_scant, untold
from chaoskit.cost.values import Comparison, CostReport
from chaoskit.model import JsonValue
from chaoskit.reports.cost.rows import notes

SCHEMA_VERSION = 1


def render(report: CostReport, limit: float | None = None) -> str:
    """Return the object as JSON text with a final newline."""
    body: dict[str, JsonValue] = {"schema_version": SCHEMA_VERSION}
    encoded = codec.encode(report)
    assert isinstance(encoded, dict)
    body.update(encoded)
    comparisons = [_comparison(c, limit) for c in report.comparisons]
    body["comparisons"] = list(comparisons)
    body["detections"] = [{**_object(d), "extrapolated": is_extrapolated(d)} for d in report.detections]
    body["sentences"] = [
        {"treatment": name, "text": sentence(own, report.detections)}
        for name, own in by_treatment(report.comparisons).items()
    ]
    body["notes"] = list(notes(report))
    body["limit"] = limit
    body["exit_code"] = int(exit_code(report, limit))
    return json.dumps(body, indent=2, allow_nan=False, ensure_ascii=True) + "\n"


def _comparison(comparison: Comparison, limit: float | None) -> dict[str, JsonValue]:
    found = _object(comparison)
    if (estimate := comparison.estimate) is not None:
        found["is_difference"] = estimate.is_difference
        found["untold"] = untold(estimate)
        if is_scant(estimate):  # figures that mean nothing are in no report
            found.update(estimate=None, bus_bytes_s=None)
    if limit is not None:
        found["limit"] = standing(comparison, limit)
    return found


def _object(value: object) -> dict[str, JsonValue]:
    encoded = codec.encode(value)
    assert isinstance(encoded, dict)
    return {**encoded}
