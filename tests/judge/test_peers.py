"""Sends and receives: who waits for whom, and who is at its root."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from histories import Story

from chaoskit.history import DeadlineReached, Lost
from chaoskit.judge import blame, hang
from chaoskit.judge.job import Job
from chaoskit.model import Blame, Culprit, Kind, Operation
from chaoskit.verdict import Sureness


def rank(*ids: int) -> tuple[Culprit, ...]:
    return tuple(Culprit("rank", str(i)) for i in ids)


def send(story: Story, slot: int, to: int, done: bool = True) -> None:
    story.enter(slot, "send", peer=to)
    if done:
        story.complete(slot)


def recv(story: Story, slot: int, of: int, done: bool = True) -> None:
    story.enter(slot, "recv", peer=of)
    if done:
        story.complete(slot)


def shift(story: Story, size: int = 4) -> None:
    """A round of the ring: each sends to the next and receives from the one before; then a barrier of all."""
    for slot in range(size):
        send(story, slot, (slot + 1) % size)
        recv(story, slot, (slot - 1) % size)
    story.everyone("barrier")


def hung(story: Story) -> Blame:
    story.still(*range(story.size))
    story.deadline(*range(story.size))
    return blame.find(story.history)


def test_a_receiver_waits_for_the_sender_that_is_elsewhere() -> None:
    story = Story()
    story.everyone("init", "barrier")
    recv(story, 0, 1, done=False)
    for slot in (2, 3):
        story.enter(slot, "barrier")
    found = hung(story)
    assert (found.culprits, found.kind, found.sureness) == (rank(1), Kind.NEVER_ENTERED, Sureness.CERTAIN)


def test_the_third_recv_needs_the_third_send() -> None:
    story = Story(size=2)
    story.everyone("init")
    for _ in range(2):
        send(story, 1, 0)
        recv(story, 0, 1)
    recv(story, 0, 1, done=False)
    found = hung(story)
    assert (found.culprits, found.kind) == (rank(1), Kind.NEVER_ENTERED)
    assert found.at == Operation("send", "default", 3)
    assert "rank 1 never entered send #3 to rank 0" in found.reason
    assert (
        "rank 0 is in its 3rd recv from rank 1, which has entered a send to rank 0 2 times"
        in found.evidence[0]
    )


def test_a_send_that_nobody_receives() -> None:
    story = Story(size=2)
    story.everyone("init")
    send(story, 0, 1, done=False)
    found = hung(story)
    assert (found.culprits, found.at) == (rank(1), Operation("recv", "default", 1))


def test_a_send_that_was_skipped_by_a_rank_that_finished() -> None:
    story = Story(size=3)
    story.everyone("init")
    send(story, 1, 2)
    recv(story, 2, 1)
    recv(story, 2, 1, done=False)
    story.finish(0, 1)
    story.timed_out(2)
    found = blame.find(story.history)
    assert (found.culprits, found.kind) == (rank(1, 2), Kind.NEVER_ENTERED)
    assert found.ambiguous, "rank 2 may as well have made a recv too many"
    assert found.reason.startswith("rank 1 skipped send #2 to rank 2; rank 2 failed in recv #2 from rank 1")
    assert found.where == "train.py:14"  # of its sends


def standing(story: Story, thread: int = 0) -> None:
    """Receives for messages that come some time: nobody waits for them."""
    for slot, of in ((0, 1), (1, 0), (3, 0)):
        story.enter(slot, "recv", peer=of, group="control", thread=thread)


@pytest.mark.parametrize("thread", [0, 1])
@pytest.mark.parametrize("listening_first", [True, False])
def test_a_recv_that_stands_open_is_not_what_a_rank_waits_in(thread: int, listening_first: bool) -> None:
    story = Story()
    story.everyone("init", "all_reduce")
    if listening_first:
        standing(story, thread)
    for slot in (0, 1, 3):
        story.enter(slot, "all_reduce")
    if not listening_first and thread:
        standing(story, thread)
    found = hung(story)
    assert (found.culprits, found.kind) == (rank(2), Kind.NEVER_ENTERED)
    assert found.at == Operation("all_reduce", "default", 2)


def test_an_error_that_speaks_of_a_connection_and_comes_first_is_its_own() -> None:
    story = Story()
    story.everyone("init")
    for slot in range(4):
        story.enter(slot, "barrier")
    story.fail(1, "Pair is not connected")
    story.raised(1, "peer_lost", message="Pair is not connected")
    for slot in (0, 2, 3):
        story.victim(slot)
    story.end(1, 1)
    found = blame.find(story.history)
    assert (found.culprits, found.kind, found.sureness) == (rank(1), Kind.EXCEPTION, Sureness.LIKELY)


def test_who_lost_a_peer_that_was_done_with_its_work_is_not_the_first_to_blame() -> None:
    story = Story()
    story.everyone("init")
    for slot in range(4):
        story.enter(slot, "barrier")
    story.complete(2)
    story.finish(2)
    story.victim(0)
    story.victim(1)
    story.victim(3)
    found = blame.find(story.history)
    assert not set(found.culprits) & set(rank(0, 1, 3))


def test_who_waits_for_a_frozen_rank_is_followed_through_the_ring() -> None:
    story = Story()
    story.everyone("init")
    for slot in (2, 3, 0):
        recv(story, slot, (slot - 1) % 4, done=False)
    found = hung(story)
    assert (found.culprits, found.kind) == (rank(1), Kind.NEVER_ENTERED)


def test_receiving_from_each_other_is_a_circle_that_both_are_in() -> None:
    story = Story(size=2)
    story.everyone("init")
    for slot in (0, 1):
        recv(story, slot, 1 - slot, done=False)
    found = hung(story)
    assert (found.culprits, found.kind, found.sureness) == (rank(0, 1), Kind.DEADLOCK, Sureness.CERTAIN)
    assert found.reason == (
        "ranks 0, 1 wait for each other: rank 0 waits in recv #1 from rank 1; "
        "rank 1 waits in recv #1 from rank 0"
    )


def test_those_who_wait_for_a_circle_are_not_in_it() -> None:
    story = Story()
    story.everyone("init")
    for slot, of in ((0, 2), (1, 0), (2, 1), (3, 0)):
        recv(story, slot, of, done=False)
    found = hung(story)
    assert (found.culprits, found.kind, found.ambiguous) == (rank(0, 1, 2), Kind.DEADLOCK, False)


def test_in_a_circle_the_rank_that_departed_from_its_rounds_is_the_likely_one() -> None:
    """Rank 0 sends first, all others receive first, but for once."""
    story = Story()
    story.everyone("init")
    for _ in range(4):
        for slot in range(4):
            for act in (send, recv) if slot == 0 else (recv, send):
                act(story, slot, (slot + (1 if act is send else -1)) % 4)
    for slot in range(4):
        recv(story, slot, (slot - 1) % 4, done=False)
    found = hung(story)
    assert (found.culprits, found.kind, found.sureness) == (rank(0), Kind.DEADLOCK, Sureness.LIKELY)
    assert "rank 0 entered recv #5 from rank 3 where it had entered send to rank 1" in found.reason
    assert found.at == Operation("send", "default", 5)


def test_a_send_that_was_skipped_before_a_barrier_of_all() -> None:
    """Rank 2 waits for the send, rank 1 in the barrier for rank 2: which of them is wrong its rounds tell."""
    story = Story()
    story.everyone("init")
    for _ in range(4):
        shift(story)
    for slot in range(4):
        if slot != 1:
            send(story, slot, (slot + 1) % 4)
        recv(story, slot, (slot - 1) % 4, done=slot != 2)
    for slot in (0, 1, 3):
        story.enter(slot, "barrier")
    found = hung(story)
    assert (found.culprits, found.kind, found.sureness) == (rank(1), Kind.NEVER_ENTERED, Sureness.LIKELY)
    assert "rank 1 skipped send #5 to rank 2 and went on to recv #5 from rank 0" in found.reason
    assert found.where == "train.py:14"


def test_the_same_at_the_first_round_is_ambiguous() -> None:
    story = Story()
    story.everyone("init")
    recv(story, 2, 1, done=False)
    for slot in (0, 1, 3):
        story.enter(slot, "barrier")
    found = hung(story)
    assert (found.culprits, found.kind, found.sureness) == (rank(1, 2), Kind.DEADLOCK, Sureness.AMBIGUOUS)


def test_isend_and_irecv_that_are_under_way_together() -> None:
    """The rank waits for its recv, though its send was the last that it entered."""
    story = Story(size=3)
    story.everyone("init")
    recv(story, 0, 2, done=False)
    send(story, 0, 1, done=False)
    recv(story, 1, 0, done=False)
    found = hung(story)
    assert found.culprits == rank(2)


def test_one_that_was_posted_and_is_waited_for_later() -> None:
    story = Story(size=2)
    story.everyone("init")
    recv(story, 0, 1, done=False)
    story.everyone("barrier")
    story.still(0, stack=("wait (chaoskit/intercept/work.py:9)", "main (train.py:7)"))
    story.still(1)
    story.deadline(0, 1)
    assert blame.find(story.history).culprits == rank(1)


def test_one_that_was_posted_and_is_not_waited_for_is_no_wait() -> None:
    story = Story(size=3)
    story.everyone("init")
    recv(story, 0, 1, done=False)
    story.everyone("barrier")
    for slot in (1, 2):
        story.enter(slot, "barrier")
    story.still(0, stack=("main (train.py:7)",))
    story.still(1, 2)
    story.deadline(0, 1, 2)
    assert blame.find(story.history).culprits == rank(0)


def test_a_recv_from_anyone_takes_any_message() -> None:
    story = Story(size=2)
    story.everyone("init")
    recv(story, 0, -1)
    send(story, 1, 0, done=False)
    found = hung(story)
    assert found.culprits == ()


def test_lost_records_make_it_no_more_than_likely() -> None:
    story = Story(size=2)
    story.everyone("init")
    recv(story, 0, 1, done=False)
    story.add(Lost(story.tick(), 1, 500))
    found = hung(story)
    assert (found.culprits, found.sureness) == (rank(1), Sureness.LIKELY)
    assert "records of rank 1 before #1 are lost" in found.evidence


def test_a_receiver_hangs_for_its_peer_and_for_nobody_else() -> None:
    """Rank 2 still computes, but rank 0 waits for rank 1 alone, which does not move."""
    story = Story(size=3)
    story.everyone("init")
    recv(story, 0, 1, done=False)
    for look in range(3):
        story.still(0, 1)
        story.enter(2, "send", peer=2 if look else 1)
    story.still(2, moving=True)
    story.add(DeadlineReached(story.tick(), -1, final=True))
    for slot in range(3):
        story.end(slot, -9, "supervisor")
    found = hang.judge(Job.of(story.history))
    assert found.hung and found.reason == "rank 0 waits in recv #1 from rank 1 for rank 1, not moving"
