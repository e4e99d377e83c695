"""The templates, style and script of the page. Whatever stands in a text, it stays a text.

Every value that a template shows goes through :func:`chaoskit.reports.wording.safe` and is escaped; nothing
has to be marked in the templates. The page forbids itself all but its own script and style.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from typing import Final

import jinja2
from markupsafe import Markup, escape

from chaoskit.reports.html.settings import ProfileSettings
from chaoskit.reports.html.stacks import runs
from chaoskit.reports.html.views import ArmView, Badge, Head
from chaoskit.reports.wording import safe

SCRIPTS: Final = ("decode.js", "words.js", "draw.js", "timeline.js", "page.js")
STYLE: Final = "report.css"


def _shown(value: object) -> object:
    """What is put out for a value: never a character that hides or reorders others."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return value if value.isascii() and value.isprintable() and len(value) <= 2000 else safe(value)


@functools.cache
def _templates() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("chaoskit.reports.html"),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["runs"] = runs
    found.filters["short"] = lambda text, longest=160: safe(text, longest=longest)
    return found


def _source(name: str) -> str:
    environment = _templates()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


@functools.cache
def _script() -> str:
    return '"use strict";\n(() => {\n' + "".join(map(_source, SCRIPTS)) + "})();\n"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def size_of(text: str) -> int:
    """Return the bytes that ``text`` takes where it is shown, at most."""
    return len(str(escape(safe(text))).encode())


def head(view: Head) -> str:
    """Return the page up to its first arm."""
    style = _source(STYLE)
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(_script())}'; "
        "base-uri 'none'; form-action 'none'"
    )
    template = _templates().get_template("head.html")
    # Our own files, no text of anybody's.
    return template.render(head=view, policy=policy, style=Markup(style))  # noqa: S704


def arm(view: ArmView) -> str:
    """Return one arm."""
    # JSON in which nothing can end a script element (see packing.in_script).
    data = Markup(view.timeline.data) if view.timeline is not None else ""  # noqa: S704
    return _templates().get_template("arm.html").render(arm=view, data=data)


def profile(settings: ProfileSettings, number: int) -> str:
    """Return one profile, for the end of the page."""
    return _templates().get_template("profile.html").render(profile=settings, number=number)


def tail(profiles: list[str], left_out: int) -> str:
    """Return the page from its last arm on."""
    template = _templates().get_template("tail.html")
    texts = Markup("").join(map(Markup, profiles))  # made by profile()
    return template.render(profiles=texts, left_out=left_out, script=Markup(_script()))  # noqa: S704


def brief(mark: Badge, name: str, said: str, number: int) -> str:
    """Return one line that stands for an arm."""
    return _templates().get_template("brief.html").render(badge=mark, name=name, said=said, number=number)
