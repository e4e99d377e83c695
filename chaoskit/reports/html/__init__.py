"""The report that a browser shows: one HTML file that needs nothing else.

Imports jinja2, so only those import this who are about to write a report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import IO

from chaoskit.arm_record import ArmRecord
from chaoskit.reports.html.page import Page
from chaoskit.reports.judged import Judged


def write(judged: Judged, arms: Iterable[ArmRecord], stream: IO[str], versions: Mapping[str, str]) -> None:
    """Write the report of ``judged`` to ``stream``.

    ``arms`` are the records of the verdicts, in their order, and are read one at a time; those that are
    missing at the end are shown without files. ``versions``: of what, and which (``torch``: ``2.13.0``).
    """
    Page(judged, stream, versions).write(arms)
