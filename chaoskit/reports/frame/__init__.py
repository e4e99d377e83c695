"""The frame that every HTML page stands in: its head, its policy, its colours, what all of them look like.

A new page is a template that extends ``frame.html``, a style, a view, and a :class:`~.page.Frame` of them.
"""
