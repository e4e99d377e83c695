"""No secret of what is compared is told."""

from __future__ import annotations

from chaoskit.cost import cases
from chaoskit.cost.hiding import Hiding
from chaoskit.cost.request import CostRequest, Model
from chaoskit.cost.treatments import treatment
from chaoskit.cost.values import Comparison, CostReport, Detection

PLAIN = treatment("torch-defaults")
DDP = cases.ddp(Model())


def hiding(text: str) -> Hiding:
    return Hiding([CostRequest((treatment(text),), PLAIN, (DDP,))], {"HOME": "/h"})


def test_values_of_secret_names_are_in_no_field_of_a_report() -> None:
    hidden = hiding("MY_API_TOKEN=s3cr3t")
    proofs = ((), ("MY_API_TOKEN=s3cr3t: in the environment of the rank",))
    found = Comparison("a", "a", "b", DDP, "process", None, "rank 0 said: s3cr3t", proofs)
    seen = Detection("a", "rank-stopped", None, None, 1.0, 1.0, "skipped: s3cr3t")
    report = CostReport("gloo", 2, "2.13", "m", 1, (found,), (seen,), notes=("s3cr3t",), run_dir="runs/1")
    told = hidden.report(report)
    assert "s3cr3t" not in repr(told)
    assert told.comparisons[0].proofs[1] == ("MY_API_TOKEN=<redacted>: in the environment of the rank",)
    assert told.run_dir == "runs/1"


def test_a_secret_too_short_to_look_for_is_hidden_behind_its_name() -> None:
    assert hiding("MY_TOKEN=ab").text("MY_TOKEN=ab: in the rank") == "MY_TOKEN=<redacted>: in the rank"
    told = hiding("MY_URL=http://me:pw@host").text("MY_URL=http://me:pw@host")
    assert told == "MY_URL=http://<redacted>@host"


def test_what_is_no_secret_stays() -> None:
    assert hiding("OMP_NUM_THREADS=4").text("OMP_NUM_THREADS=4: 4 threads") == "OMP_NUM_THREADS=4: 4 threads"
