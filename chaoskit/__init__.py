"""chaoskit: what happens to a distributed training job when something goes wrong.

``chaoskit.run(scenario)`` runs one and returns its verdicts; see :mod:`chaoskit.api`. Importing the
package imports nothing else: guards and ranks have to come up with torch alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaoskit.api import run

__all__ = ["run"]


def __getattr__(name: str) -> object:
    if name == "run":
        from chaoskit.api import run

        return run
    raise AttributeError(f"module 'chaoskit' has no attribute {name!r}")
