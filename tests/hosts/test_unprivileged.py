"""Virtual hosts for a user who is not root: the whole command, in user namespaces of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit import capabilities

SCENARIO = """
name: host-crash-unprivileged
summary: A host loses power.
workload: all-reduce-loop
topology: {ranks: 2, hosts: 2}
backends: [gloo]
faults:
  - host-crash: {rank: 1}
    when: {op: all_reduce, nth: 3, phase: during}
arms:
  control:
    profile: torch-defaults
    expect: {outcome: hung}
  hardened:
    profile: strict
    expect: {outcome: failed, within: {timeout: collective, plus: 2s}, exit: nonzero, culprits: [host hostB]}
"""
AS_USER = """
import ctypes, os, sys
uid, gid = os.geteuid(), os.getegid()
assert ctypes.CDLL(None, use_errno=True).unshare(0x10000000) == 0  # CLONE_NEWUSER
for file, text in (("setgroups", "deny"), ("uid_map", f"1000 {uid} 1"), ("gid_map", f"1000 {gid} 1")):
    with open(f"/proc/self/{file}", "w") as out:
        out.write(text)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Become a user without any privilege (exec drops them), who may read what we may."""


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.nightly
def test_a_user_without_privileges_has_virtual_hosts_too(tmp_path: Path) -> None:
    for name in ("user-namespaces", "virtual-hosts"):
        found = capabilities.find(name)
        if not found.available:
            pytest.skip(f"{name}: {found.detail}")
    file = tmp_path / "x.yaml"
    file.write_text(SCENARIO)
    probe = "import os; print(os.geteuid(), [r for r in open('/proc/self/status') if r.startswith('CapEff')])"
    who = [sys.executable, "-c", AS_USER] if os.geteuid() == 0 else [sys.executable]
    said = subprocess.run([*who, "-c", probe], capture_output=True, text=True, check=True).stdout
    assert said.split()[0] != "0"
    assert "0000000000000000" in said
    command = [*who, "-m", "chaoskit", "run", str(file), "--runs-dir", str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=390)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "held" in done.stdout
