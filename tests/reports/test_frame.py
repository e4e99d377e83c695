"""What every page has by its frame: a new one needs a template and a style to be as strict as the others."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from pathlib import Path

import jinja2
import pytest

from chaoskit.reports.frame.page import Frame, environment, policy

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e{{ 7 * 7 }}"
TEMPLATE = '{% extends "frame.html" %}{% block main %}<p title="{{ said }}">{{ said }}</p>{% endblock %}'


@pytest.fixture
def fourth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Frame:
    """A page of a package that nobody knew of."""
    name = f"package_{tmp_path.name}"
    folder = tmp_path / name / "templates"
    folder.mkdir(parents=True)
    (tmp_path / name / "__init__.py").touch()
    files = {"page.html": TEMPLATE, "page.css": "p { color: var(--bad); }\n", "page.js": "const own = 1;\n"}
    for file, text in files.items():
        (folder / file).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return Frame(name, "page.html", "page.css", ("page.js",))


def digest(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def test_a_page_allows_itself_what_it_has_and_nothing_else(fourth: Frame) -> None:
    page = fourth.render("a page", ("here",), said="x")
    (style,), (script,) = (
        re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL) for tag in ("style", "script")
    )
    (allowed,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert html.unescape(allowed) == (
        f"default-src 'none'; style-src {digest(style)}; script-src {digest(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    assert "prefers-color-scheme: dark" in style and "p { color: var(--bad); }" in style
    assert script == '"use strict";\n(() => {\nconst own = 1;\n})();\n'
    assert not re.search(r"https?://|url\(|@import|\bsrc=|\bhref=", page)


def test_without_scripts_none_is_allowed() -> None:
    assert "script" not in policy("p {}")
    assert "img-src data:" in policy("p {}", pictures=True)


def test_every_text_stays_a_text(fourth: Frame) -> None:
    page = fourth.render(HOSTILE, (HOSTILE,), said=HOSTILE)
    assert page.count("<script>") == 1
    assert "<img" not in page and "{{ 7 * 7 }}" in page
    assert not re.search("[\x1b\u202e]", html.unescape(page))


def test_a_value_that_a_page_forgot_is_an_error(fourth: Frame) -> None:
    with pytest.raises(jinja2.UndefinedError, match="said"):
        fourth.render("a page", ())
    assert environment(fourth.package).autoescape is True
