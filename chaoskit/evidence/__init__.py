"""What can be seen of a running rank from outside. One file per source; none of them ends anything.

Before the deadline the judge's question is only *hung or slow*, and :mod:`chaoskit.evidence.look` samples for
it. At the deadline :mod:`chaoskit.evidence.gather` asks every source (see :mod:`chaoskit.evidence.family`)
for all that can be had, and :mod:`chaoskit.evidence.findings` reads it again.
"""
