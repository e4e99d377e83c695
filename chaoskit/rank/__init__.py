"""All that runs inside a rank: bootstrap, recorder, tap, triggers. Standard library and torch alone.

Importing this package imports no torch; :mod:`chaoskit.rank.region` never does (the supervisor uses it).
"""
