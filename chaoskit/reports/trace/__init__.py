"""A trace of an arm: what each rank did when, and who waited for whom, for Perfetto or chrome://tracing.

The format is Chrome's trace event JSON. Ranks are processes, the script's threads are threads, operations are
complete events (``X``), what happened to a rank is an instant (``i``), and an arrow (``s`` to ``f``) leads
from the rank that entered a collective last to those that waited there, and from a send to its recv. It is
written as it is made: a long history needs the memory of its columns and no more.
"""

from chaoskit.reports.trace.writing import TracedArm, write

__all__ = ["TracedArm", "write"]
