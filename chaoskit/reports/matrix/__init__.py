"""What a matrix found, for people and programs: terminal, Markdown, JSON, a heat map in HTML.

What a job or a file says is hostile; every value goes through :func:`chaoskit.reports.wording.safe`.
"""
