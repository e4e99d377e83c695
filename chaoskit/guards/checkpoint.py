"""Makes torch.save atomic, so that a rank killed while it saves leaves the old checkpoint as it was."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from chaoskit.guards import job_checkpoint
from chaoskit.guards.atomic_file import replacing
from chaoskit.guards.context import GuardContext
from chaoskit.model import Guard


@dataclass(frozen=True, slots=True)
class Checkpoint(Guard):
    """Every ``torch.save(obj, PATH)`` is atomic: it writes a temporary file in the same folder
    (``model.chaoskit-tmp-…`` for ``model.pt``), syncs it, and renames it over PATH. Whenever the process is
    killed, PATH holds the old checkpoint or the new one, whole; a save that fails leaves the old one and no
    temporary file. What a killed process left is removed by the next save into that folder. The
    content is the same to the byte. Power loss is not claimed.

    Needs room for both files, and costs one sync of the file a save. As ever: file objects
    (``with open(…) as f``), devices, torch.distributed.checkpoint and other libraries' writers; a
    function that the script imported before (``from torch import save``).

    The rest of a right checkpoint is two functions to call on *every* rank:

    - ``chaoskit.guards.save_checkpoint(state, path)``: all ranks meet, within ``barrier_timeout_s``; global
      rank 0 alone saves, atomically; the others wait for it, as long again. A save that fails is raised
      on all ranks as ``CheckpointFailed``, which names the rank, the path and the error; so are ranks that
      do not come. ``state`` may be a function, which is called on rank 0 only (and issues no collective).
    - ``chaoskit.guards.load_checkpoint(path, missing_ok=True)``: every rank loads; it is raised on all
      where one cannot, or where only some ranks see a file. None where no rank does.

    They work without this guard too, and declare themselves as a phase to progress_watchdog and
    step_heartbeat. Ranks meet in the job's store: no collective, and nothing to wait for on a GPU.

    ```yaml
    guards:
      checkpoint: {barrier_timeout: 10m}
    ```
    """

    name: ClassVar[str] = "checkpoint"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"

    barrier_timeout_s: float = 600.0

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """Stand in front of ``torch.save``."""
        import torch

        job_checkpoint.set_timeout(self.barrier_timeout_s)
        saving = atomically(torch.save)
        torch.save = torch.serialization.save = saving
        return ("torch.save=atomic", f"barrier_timeout={self.barrier_timeout_s:g}s")


def atomically(save: Callable[..., None]) -> Callable[..., None]:
    """Return ``torch.save`` as it was given, but atomic where it is given a path."""

    @functools.wraps(save)
    def atomic_save(obj: object, f: Any, *args: Any, **kwargs: Any) -> None:
        if not isinstance(f, (str, os.PathLike)):
            save(obj, f, *args, **kwargs)
            return
        with replacing(os.fspath(f)) as path:
            save(obj, path, *args, **kwargs)

    return atomic_save
