"""Says what came of a run: on the terminal, as JSON, as JUnit, and live while it runs.

One file per report. A report takes verdicts and returns text; it may judge nothing, start
nothing and read no run directory.
"""
