"""What a side has is told of that side alone."""

from __future__ import annotations

from chaoskit.timing import proofs
from chaoskit.timing.messages import Prepare


def test_each_side_that_is_timed_in_these_ranks_has_its_own() -> None:
    asked = Prepare("ddp", toggles=("", "monitored-barrier"), variables=((("A", "1"),), ()), every=3)
    own = proofs.of_sides(asked)
    assert own == (("A=1: set while the group of this side formed",), ("monitored-barrier every 3 steps",))
    assert proofs.of_sides(Prepare("ddp")) == ((),)
