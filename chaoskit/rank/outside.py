"""What is done for a program that chaoskit did not write: it declares nothing, so its end is found out.

May not change what the program does.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from chaoskit.guards import sidecar, torch_hooks
from chaoskit.history import OWN_RANKS, Reached
from chaoskit.intercept import replicated
from chaoskit.rank.parameters import ParameterFile
from chaoskit.rank.program import SCRATCH_VARIABLE
from chaoskit.rank.recorder import Recorder
from chaoskit.rank.region import Channels, Kind
from chaoskit.rank.tap import Tap

ELEMENTS: Final = 16_384
"""So many elements of replicated state are gone over for each update: a model twice as large is checked half
as often. 0.4 ms for each MiB, so this is 25 µs an update, and some more for each tensor."""
_kept: list[object] = []
_parameters = ParameterFile()


def follow(tap: Tap, recorder: Recorder, slot: int, forked: bool) -> None:
    """Have checksums taken of what is replicated, and take the end of the process group as that of the work.

    In a ``forked`` rank the models are kept alive from then on: freed after the group, DDP's reducer at
    times joins gloo's thread under the GIL and hangs for good, and such a rank skips the finalization in
    which a fresh interpreter would free them anyway.
    """
    replicated.on_replica(lambda _: None, every=_every)  # who records them is asked anyway

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        def destroy_process_group(group: Any = None) -> Any:
            import torch.distributed as dist

            last = (group is None or group is dist.group.WORLD) and dist.is_initialized()
            if last and sys.exc_info()[1] is None:
                record_last(recorder)
                if forked:
                    _kept.extend(replicated.owners())
            result = original(group)
            if last and sys.exc_info()[1] is None:
                finished(tap, recorder)
            return result

        return destroy_process_group

    torch_hooks.replace("destroy_process_group", watched)
    _note_own_ranks(recorder, slot)


def record_replicas(recorder: Recorder, channels: Channels, slot: int) -> None:
    """Record every checksum that is taken of what the ranks hold alike, by whoever asks for it, and those of
    its parameters in a file of the rank."""
    global _parameters  # of this process, which is one rank
    _parameters = ParameterFile(_own_folder(channels, slot))
    replicated.on_any_replica(functools.partial(_record, recorder, final=False))


def _own_folder(channels: Channels, slot: int) -> str:
    """The folder of this rank's files, where the arm has one on this machine."""
    scratch = os.environ.get(SCRATCH_VARIABLE, "")
    arm = channels.folder or (os.path.dirname(os.path.abspath(scratch)) if scratch else "")
    if not arm or not os.path.exists(os.path.join(arm, "plan.json")):
        return ""
    return os.path.join(arm, f"rank{slot}")


def _note_own_ranks(recorder: Recorder, slot: int) -> None:
    """Record that the program starts ranks itself, though its launcher has started one for each already."""
    module = importlib.import_module("torch.multiprocessing.spawn")
    original = module.start_processes

    @functools.wraps(original)
    def start_processes(
        fn: object, args: object = (), nprocs: int = 1, *rest: object, **options: object
    ) -> object:
        recorder.note(Reached(time.monotonic(), slot, OWN_RANKS, nprocs))
        return original(fn, args, nprocs, *rest, **options)

    module.start_processes = start_processes  # type: ignore[attr-defined]


def _every(numel: int) -> int:
    return -(-numel // ELEMENTS)


def finished(tap: Tap, recorder: Recorder) -> None:
    """The program's work is done, also for the guards that care.

    One that never destroys its group is summed up here, as far as its models are still there.
    """
    record_last(recorder)
    tap.finished()
    sidecar.work_done()


def record_last(recorder: Recorder) -> None:
    """Record what every rank of the job holds alike, as it is at the end."""
    for replica in replicated.replicas():
        _record(recorder, replica, final=True)


def _record(recorder: Recorder, replica: replicated.Replica, final: bool) -> None:
    import torch.distributed as dist

    if recorder.muted or not dist.is_initialized() or len(replica.ranks) != dist.get_world_size():
        return
    now = time.monotonic_ns()
    recorder.put(int(Kind.REPLICATED), now, 0, int(final), replica.step, replica.ordinal, replica.checksum)
    _parameters.add(replica, now, final)
