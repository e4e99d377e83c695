"""Secrets are taken out of every text in every form, and what only looks like one stays."""

from __future__ import annotations

import dataclasses
import json
import shlex
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit import codec, history
from chaoskit.faults.environment import Environment
from chaoskit.history import Entered, GuardArmed, LauncherEnded, Leftover, Raised
from chaoskit.model import Injection, Plan, Trigger, Workload
from chaoskit.plan import make_plan
from chaoskit.redacting import Redactor
from chaoskit.scenario import load_profile, select
from chaoskit.secret_shapes import HIDDEN

names = st.sampled_from(
    "HF_TOKEN MY_PASSWORD DB_PASSWD AWS_SECRET_ACCESS_KEY WANDB_API_KEY NPM_AUTH Api_Key".split()
)
values = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=8, max_size=40).filter(
    lambda text: len(set(text)) > 5 and text.strip() == text and not set(text) <= set("<redacted>")
)


@given(names, values, st.text(max_size=20))
def test_a_value_is_found_in_every_form(name: str, value: str, around: str) -> None:
    redactor = Redactor.of({name: value})
    for form in (value, json.dumps(value), repr(value), shlex.quote(value), urllib.parse.quote(value)):
        assert form.strip("'\"") not in redactor.text(f"{around}{form}{around}").replace(HIDDEN, "")
    assert value.encode() not in redactor.data(f"{around}{value}{around}".encode()).replace(
        HIDDEN.encode(), b""
    )


@given(st.text(max_size=300))
def test_without_secrets_a_text_stays_as_it_is_or_is_marked(text: str) -> None:
    shown = Redactor().text(text)
    assert shown == text or HIDDEN in shown


PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234567890\nabcd=\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("using hf_AbCdEfGh12345678 now", "AbCdEfGh12345678"),
        ("ghp_0123456789abcdefABCDEF0123456789abcd", "0123456789abcdef"),
        ("github_pat_11ABCDEFG0123456789_abcdefghij", "0123456789_abc"),
        ("id AKIAIOSFODNN7EXAMPLE", "IOSFODNN7EXAMPLE"),
        ("xoxb-123456789012-abcdefghij", "123456789012"),
        ("sk-proj-abcdefghijklmnop0123456789", "abcdefghijklmnop"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "c2lnbmF0dXJl"),
        (f"key: {PEM} end", "MIIEowIBAAKCAQEA1234567890"),
        (json.dumps({"key": PEM}), "MIIEowIBAAKCAQEA1234567890"),
        (PEM[:60], "MIIEowIBAAKCAQEA1234567890"),
        ("Authorization: Bearer abcdefghijklmnop", "abcdefghijklmnop"),
        ("pull from https://user:p4ssw0rd/x@host/y", "p4ssw0rd"),
        ("pull from https://gl0tok3n@host/y", "gl0tok3n"),
        ("FOO_TOKEN=abcdefgh python train.py", "abcdefgh"),
        ("python train.py --hub-token abcdefgh", "abcdefgh"),
        ("python train.py --api_key=abcdefgh", "abcdefgh"),
    ],
)
def test_well_known_shapes_need_no_environment(text: str, secret: str) -> None:
    for shown in (Redactor().text(text), Redactor().data(text.encode()).decode()):
        assert secret not in shown
        assert HIDDEN in shown


@pytest.mark.parametrize(
    "text",
    [
        "tcp://127.0.0.1:29500", "init_method=env://", "train.py:31", "step 5: loss=0.25, lr=1e-4",
        "--max-token 128 --tokenizer gpt2-medium --num-tokens 4096", "task-runner sk-learn disk-full",
        "hf_hub_download", "user@host: no route", "-----BEGIN CERTIFICATE-----",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor.of({}).text(text) == text


ORDINARY = {
    "USER": "ubuntu", "HOME": "/srv/ubuntu", "PWD": "/srv/ubuntu/work", "DESKTOP_SESSION": "ubuntu",
    "XDG_SESSION_TYPE": "wayland", "TOKENIZERS_PARALLELISM": "false-ish", "SSH_AUTH_SOCK": "/tmp/ssh-x/agent",
    "HF_TOKEN_PATH": "/srv/ubuntu/token", "MAX_TOKENS": "100000", "PIN_SECRET": "12345",
    "MY_TOKEN": "disabled",
    "DB_PASSWORD": "ubuntu", "AUTHOR": "jane", "SOME_SECRET": "",
}  # fmt: skip


def test_values_that_stand_everywhere_are_not_replaced_blindly() -> None:
    assert Redactor.of(ORDINARY).values == ()


def test_options_of_a_command_line() -> None:
    words = [
        "t.py",
        "--token",
        "abc",
        "--api-key=q",
        "hub.access_key=z",
        "-p",
        "x",
        "--tokenizer",
        "gpt2",
        "--max-tokens",
        "9",
    ]
    shown = Redactor().words(words)
    assert shown == (
        "t.py", "--token", HIDDEN, f"--api-key={HIDDEN}", f"hub.access_key={HIDDEN}",
        "-p", "x", "--tokenizer", "gpt2", "--max-tokens", "9",
    )  # fmt: skip
    assert Redactor.of(words=["--password", "hunter22"]).text("login hunter22") == f"login {HIDDEN}"


def test_a_command_can_still_be_split() -> None:
    redactor = Redactor.of({"MY_SECRET": 'it\'s a "secret"'})
    text = shlex.join(["chaoskit", "watch", "a b.py", "--", "--x", 'it\'s a "secret"', "--token", "y z"])
    shown = redactor.command(text)
    assert shlex.split(shown) == ["chaoskit", "watch", "a b.py", "--", "--x", HIDDEN, "--token", HIDDEN]
    assert redactor.command("chaoskit run 'a b'") == "chaoskit run 'a b'", "nothing to hide, nothing changed"


def plan_with_secrets() -> Plan:
    (scenario,) = select(["rank-killed-mid-all-reduce"])
    strict = load_profile("strict")
    strict = dataclasses.replace(strict, env=(("WANDB_API_KEY", "profilesecret"), ("OMP_NUM_THREADS", "1")))
    plan = make_plan(scenario, "hardened", profile=strict, hardened_profile=strict, seed=1)
    fault = Environment((1,), (("HF_TOKEN", "faultsecret"), ("WORLD_SIZE", "3")))
    return dataclasses.replace(
        plan,
        workload=Workload(
            "t.py", kind="script", target="/t.py", args=("--token", "argsecret", "profilesecret")
        ),
        ranks=tuple(dataclasses.replace(r, env=(*r.env, ("MY_PASSWORD", "ranksecret"))) for r in plan.ranks),
        injections=(Injection(fault, Trigger("launch")),),
        rerun="chaoskit run x -- --token argsecret",
    )


def test_a_plan_is_shown_without_secrets_and_is_still_a_plan() -> None:
    plan = plan_with_secrets()
    redactor = Redactor().knowing([plan])
    shown = redactor.plan(plan)
    text = codec.dump_plan(shown)
    assert codec.load_plan(text) == shown
    assert not [s for s in ("profilesecret", "faultsecret", "argsecret", "ranksecret") if s in text]
    assert shown.workload.args == ("--token", HIDDEN, HIDDEN)
    assert dict(shown.profile.env) == {"WANDB_API_KEY": HIDDEN, "OMP_NUM_THREADS": "1"}
    assert shown.rerun == "", "with another token it would be another arm"
    assert redactor.plan(shown) == shown


def test_a_plan_without_secrets_stays_as_it_is() -> None:
    (scenario,) = select(["rank-killed-mid-all-reduce"])
    strict = load_profile("strict")
    plan = make_plan(scenario, "control", profile=strict, hardened_profile=strict, seed=1)
    assert Redactor.of(ORDINARY).knowing([plan]).plan(plan) == plan


def test_what_events_say_is_searched_and_their_own_words_are_not() -> None:
    redactor = Redactor.of({"A_TOKEN": "sesame-open", "B_TOKEN": "all_reduce", "C_SECRET": "own-group"})
    said = [
        Raised(1.0, 0, "E", "no sesame-open", "own", "a.py:1", ("f in sesame-open",)),
        GuardArmed(1.0, 0, "timeouts", ("key=sesame-open",)),
        LauncherEnded(1.0, -1, 1, said="sesame-open!"),
        Leftover(1.0, 0, 5, "cat sesame-open"),
    ]
    for event in said:
        line = history.to_line(redactor.event(event))
        assert "sesame-open" not in line
        assert history.from_line(line) == redactor.event(event)
    entered = Entered(1.0, 0, "all_reduce", "own-group", 1, 1, 1, site="t.py:3")
    assert redactor.event(entered) is entered


SIZE = 256 * 1024
"""Twice what is kept of a stream."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "piece",
    [
        "x", "-", "--", "--token", "://", "a:", "hf_", "eyJ", "eyJaaaaaaaa.", "TOKEN=", "Bearer ", "sk-",
        "\n", "AKIA", "@", "://a:", "xoxb-", "-----BEGIN PRIVATE KEY-----",
    ],
)  # fmt: skip
def test_hostile_output_costs_no_more_than_its_length(piece: str) -> None:
    Redactor.of({"A_TOKEN": "abcdefgh"}).data((piece * SIZE)[:SIZE].encode())
