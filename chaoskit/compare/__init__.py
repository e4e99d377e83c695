"""Compares two runs: of another cluster, image or profile. Pure but for :mod:`chaoskit.compare.files`.

It takes what was judged and says what differs; it judges nothing and runs nothing.
"""
