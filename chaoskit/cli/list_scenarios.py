"""``chaoskit list``: the library at a glance. Must stay within 0.15 s, so it parses no YAML."""

from __future__ import annotations

import click

from chaoskit.cli import keyword_expression
from chaoskit.cli.printing import say, say_json
from chaoskit.errors import usage
from chaoskit.scenario.listing import Listed, listing


@click.command("list")
@click.option(
    "-k",
    "keyword",
    metavar="EXPR",
    help="Only those whose name, family or tags match: 'memory and not cgroup'.",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="What stdout gets."
)
def list_scenarios(keyword: str | None, form: str) -> None:
    """List the scenarios of the library."""
    found = listing() if keyword is None else _matching(keyword)
    if form == "json":
        say_json({"scenarios": [_entry(one) for one in found]})
        return
    width = max((len(one.name) for one in found), default=0)
    for number, one in enumerate(found):
        if number == 0 or found[number - 1].family != one.family:
            say(f"{'' if number == 0 else chr(10)}{one.family}")
        needs = f" (needs {', '.join(one.requires)})" if one.requires else ""
        say(f"  {one.name:<{width}}  {one.summary}{needs}")


def _matching(keyword: str) -> list[Listed]:
    """Return the scenarios of which ``keyword`` is true. Raises InvalidInput where that is none."""
    try:
        matches = keyword_expression.parse(keyword)
    except ValueError as error:
        raise usage(f"-k {keyword!r}: {error}", "words joined by and, or, not and parentheses") from None
    known = listing()
    found = [one for one in known if matches((one.name, one.family, *one.tags))]
    if not found:
        raise usage(f"-k {keyword!r} matches none of {len(known)} scenarios", "see: chaoskit list")
    return found


def _entry(one: Listed) -> dict[str, object]:
    return {
        "name": one.name,
        "family": one.family,
        "tags": list(one.tags),
        "summary": one.summary,
        "requires": list(one.requires),
        "backends": list(one.backends),
    }
