"""What hardening costs, told: terminal, JSON, Markdown, a page, plots, and the progress of a measurement."""
