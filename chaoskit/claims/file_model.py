"""The shape of a claim's file, from the same parts as that of a scenario's."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from chaoskit.scenario.schema import (
    AnyText,
    BackendNames,
    Boolean,
    Duration,
    Environment,
    ExpectFile,
    FileModel,
    Name,
    Text,
    Texts,
)


class SettingFile(FileModel):
    """Guards and environment variables, as in a profile."""

    guards: dict[str, Any] = Field(default_factory=dict)
    env: Environment = ()


class TrialFile(FileModel):
    """A scenario on which the claim is tried, and what would be seen if it were true."""

    scenario: Text = Field(description="the name of a scenario of the library, or a file beside this one")
    expect: ExpectFile
    watch: Duration | None = Field(None, description="how long is waited to see what comes")
    others: Boolean = Field(False, description="it is about the ranks that no fault was done to")
    prints: AnyText = Field("", description="a text that some rank would print")
    init: Duration | None = Field(None, description="a timeout of init_process_group, in every arm")
    collective: Duration | None = Field(None, description="a timeout of every operation, in every arm")


class ClaimFile(FileModel):
    """A claim: what is told, and how it is tried."""

    name: Name
    told: Text = Field(description="what people are told, in one sentence")
    source: Texts = Field(description="a list of where it is told")
    try_: Any = Field(alias="try", description="a list of scenarios, each with what would be seen")
    with_: SettingFile = Field(default=SettingFile(), alias="with")
    both: SettingFile = SettingFile()
    meant_for: BackendNames = ("gloo", "nccl")
