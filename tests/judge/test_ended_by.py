"""What ended the job is in the verdict: guards, a launcher's policies, timeouts of the ranks themselves."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story
from plans import Kill, plan_of

from chaoskit.judge import contract, ended_by
from chaoskit.judge.job import OUTSIDE, Job


def told(story: Story) -> tuple[str, ...]:
    return ended_by.find(Job.of(story.history))


def in_all_reduce() -> Story:
    story = Story()
    story.everyone("init")
    for slot in range(4):
        story.enter(slot, "all_reduce")
    return story


def test_guards_and_policies_once_each_in_order_of_time() -> None:
    story = in_all_reduce()
    story.fired(2, "fail_fast", 82)
    story.signalled(0, "group_kill")
    story.signalled(1, "group_kill")
    story.fired(3, "fail_fast", 82)
    assert told(story) == ("fail_fast", "group_kill")


def test_a_timeout_of_an_operation_is_not_that_of_forming_the_group() -> None:
    story = in_all_reduce()
    story.timed_out(0)
    assert told(story) == ("collective timeout",)
    early = Story()
    early.enter(0, "init")
    early.timed_out(0)
    assert told(early) == ("init timeout",)


def test_a_lost_connection_counts_where_nothing_else_ended_anybody() -> None:
    story = in_all_reduce()
    story.end(1, -9)
    for slot in (0, 2):
        story.victim(slot)
    assert told(story) == ("lost connection",)
    story.fired(3, "fail_fast", 82)
    assert told(story) == ("fail_fast",)


def test_what_a_launcher_of_the_users_sent_is_no_policy() -> None:
    story = in_all_reduce()
    story.signalled(0, OUTSIDE)
    assert told(story) == ()


def test_it_is_in_the_verdict_but_not_of_a_job_that_completed() -> None:
    story = in_all_reduce()
    story.inject(1)
    story.end(1, -9)
    for slot in (0, 2, 3):
        story.victim(slot)
    assert contract.judge(plan_of(Kill()), story.history).ended_by == ("lost connection",)
    done = in_all_reduce()
    done.inject(1)
    for slot in range(4):
        done.complete(slot)
    done.finish(0, 1, 2, 3)
    assert contract.judge(plan_of(Kill()), done.history).ended_by == ()
