"""Data that a page carries for its script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

Json = str | int | float | bool | None | Sequence["Json"] | dict[str, "Json"]
_IN_SCRIPT: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def in_script(value: Json) -> Markup:
    """Return JSON that may stand in a script element: whatever texts are in it, nothing ends the element."""
    return Markup(json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_IN_SCRIPT))  # noqa: S704
