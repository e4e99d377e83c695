"""Two processes that are told the same GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults.family import RankFault
from chaoskit.gpu.sharing import host_id
from chaoskit.model import RankSet


@dataclass(frozen=True, slots=True)
class SameDevice(RankFault):
    """The launcher hands the rank the LOCAL_RANK of another one (`of`), so both take the same GPU, as with a
    script that forgets `set_device`. NCCL refuses when the communicator is formed: `Duplicate GPU detected`
    before 2.30, where only the two ranks fail and the others wait for them; `Multiple Ranks are using the
    same GPU` from then on, on all ranks (src/init.cc). Seen in NVIDIA/Megatron-LM#661.

    `rank` is the process as it was meant to be, by order of starting. Where ranks share a GPU anyway, the
    rank also says that it is on the host of the other, or is not told that sharing is meant: that is what
    NCCL looks at.

    Example:

        faults:
          - same-device: {rank: 1, of: 0}
            when: launch
    """

    name: ClassVar[str] = "same-device"
    triggers: ClassVar[frozenset[str]] = frozenset({"launch"})
    needs: ClassVar[tuple[str, ...]] = ("nccl",)

    rank: RankSet
    of: int = 0

    def __post_init__(self) -> None:
        if self.of < 0 or self.rank == (self.of,):
            raise ValueError(f"of must be another rank, is {self.of}")

    def environment(self, env: dict[str, str]) -> None:
        env["LOCAL_RANK"] = str(self.of)
        if "NCCL_HOSTID" in env:
            env["NCCL_HOSTID"] = host_id(self.of)
        env.pop("NCCL_MULTI_RANK_GPU_ENABLE", None)
