"""One file adds one rule of blame: ``find(job) -> Blame | None``, a pure function."""
