"""Makes a page of a template, a style and scripts: one file, that needs no network. Texts stay texts.

Every value that a template shows goes through :func:`chaoskit.reports.wording.safe` and is escaped; nothing
has to be marked in the templates. A page forbids itself all but its own script and style.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import jinja2
from markupsafe import Markup

from chaoskit.reports.wording import safe


@dataclass(frozen=True, slots=True)
class Frame:
    """A kind of page. ``template`` extends ``frame.html``; it, the style and the scripts lie in the folder
    ``templates`` of ``package``. ``pictures``: it shows some, which it holds itself."""

    package: str
    template: str
    style: str
    scripts: tuple[str, ...] = ()
    pictures: bool = False

    def render(self, title: str, origin: Sequence[str], **shown: object) -> str:
        """Return a page. ``origin``: what stands below its title; ``shown``: what its template shows."""
        style = _source(self.package, "frame.css") + _source(self.package, self.style)
        script = _script(self.package, self.scripts)
        return self.part(
            self.template,
            title=title,
            origin=origin,
            policy=policy(style, script, self.pictures),
            style=Markup(style),  # noqa: S704 - our own file, as the script is
            script=Markup(script),  # noqa: S704
            **shown,
        )

    def part(self, template: str, **shown: object) -> Markup:
        """Return what another template of the page's package makes of ``shown``."""
        text = environment(self.package).get_template(template).render(**shown)
        return Markup(text)  # noqa: S704 - all of it is escaped


@functools.cache
def environment(package: str) -> jinja2.Environment:
    """Return the templates of ``package``, and the frame's beside them."""
    folders = [jinja2.PackageLoader("chaoskit.reports.frame"), jinja2.PackageLoader(package)]
    found = jinja2.Environment(
        loader=jinja2.ChoiceLoader(folders),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["short"] = lambda text, longest=160: safe(text, longest=longest)
    return found


def policy(style: str, script: str = "", pictures: bool = False) -> str:
    """Return what a page with this style and script allows itself: these two, and nothing from anywhere."""
    allowed = ["default-src 'none'", f"style-src '{_hash(style)}'"]
    allowed += [f"script-src '{_hash(script)}'"] if script else []
    allowed += ["img-src data:"] if pictures else []
    return "; ".join([*allowed, "base-uri 'none'", "form-action 'none'"])


def _shown(value: object) -> object:
    """What is put out for a value: never a character that hides or reorders others."""
    return safe(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _script(package: str, names: tuple[str, ...]) -> str:
    """All scripts as one; what they name stays among them."""
    text = "".join(_source(package, name) for name in names)
    return f'"use strict";\n(() => {{\n{text}}})();\n' if names else ""


def _source(package: str, name: str) -> str:
    templates = environment(package)
    assert templates.loader is not None
    return templates.loader.get_source(templates, name)[0]


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
