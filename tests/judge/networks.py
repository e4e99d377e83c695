"""Hand-made histories of jobs on several hosts, and what is told of them."""

from __future__ import annotations

from histories import Story

from chaoskit.judge import blame
from chaoskit.model import Blame, Culprit, Kind

A, B, C, D = "hostA", "hostB", "hostC", "hostD"
TWO = (A, A, B, B)
THREE = (A, A, B, B, C, C)
FOUR = (A, B, C, D)


def on(
    *hosts: str, uses: tuple[str, ...] | dict[str, tuple[str, ...]] = ("eth0",), master: str = ""
) -> Story:
    """A job with a rank on each of ``hosts``, whose group has formed and that has done an operation."""
    story = Story(len(hosts), hosts=hosts, uses=uses, master=master)
    story.everyone("init", "all_reduce")
    return story


def silent(*pairs: tuple[str, str]) -> dict[tuple[str, str], str]:
    return dict.fromkeys(pairs, "silent")


def in_all_reduce(story: Story, *slots: int) -> None:
    for slot in slots or range(story.size):
        story.enter(slot, "all_reduce")


def found(story: Story) -> Blame:
    return blame.find(story.history)


def named(story: Story) -> tuple[list[str], Kind | None]:
    one = found(story)
    assert not one.ambiguous
    return [str(c) for c in one.culprits], one.kind


def nic(host: str, name: str = "eth0") -> Culprit:
    return Culprit("nic", f"{host} {name}")


def crash(story: Story, *slots: int, code: int = -9) -> None:
    for slot in slots:
        story.end(slot, code)


def flap(story: Story, host: str, for_s: float = 2.0) -> None:
    story.link(host, up=False)
    story.tick(for_s)
    story.link(host, up=True)
