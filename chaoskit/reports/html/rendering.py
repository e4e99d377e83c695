"""The pieces of the page, in the order in which they are written."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup, escape

from chaoskit.reports.frame.page import Frame
from chaoskit.reports.html.settings import ProfileSettings
from chaoskit.reports.html.stacks import runs
from chaoskit.reports.html.views import ArmView, Badge, Head
from chaoskit.reports.wording import safe

SCRIPTS: Final = ("decode.js", "words.js", "draw.js", "timeline.js", "page.js")
_PAGE: Final = Frame("chaoskit.reports.html", "page.html", "report.css", SCRIPTS)
_ARMS: Final = Markup("\0")  # nothing that a page shows has this character


def size_of(text: str) -> int:
    """Return the bytes that ``text`` takes where it is shown, at most."""
    return len(str(escape(safe(text))).encode())


def around(view: Head) -> tuple[str, str]:
    """Return the page up to its first arm, and its end, before which :func:`rest` stands."""
    before, after = _PAGE.render(view.title, view.origin, head=view, arms=_ARMS).split(_ARMS)
    return before, after


def arm(view: ArmView) -> str:
    """Return one arm."""
    return _PAGE.part("arm.html", arm=view, runs=runs)


def brief(mark: Badge, name: str, said: str, number: int) -> str:
    """Return one line that stands for an arm."""
    return _PAGE.part("brief.html", badge=mark, name=name, said=said, number=number)


def profile(settings: ProfileSettings, number: int) -> Markup:
    """Return one profile, for :func:`rest`."""
    return _PAGE.part("profile.html", profile=settings, number=number)


def rest(profiles: list[Markup], left_out: int) -> str:
    """Return what stands below the arms. ``left_out``: arms that are in the summary alone."""
    return _PAGE.part("rest.html", profiles=profiles, left_out=left_out)
