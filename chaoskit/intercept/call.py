"""One collective call as this rank sees it, and what of it can be compared with other ranks.

A Call issues itself on the inner group and describes itself. It may not know of listeners.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch.distributed import ProcessGroup, ReduceOp, Work

# Where the tensors sit whose shape every rank must share: argument position and a part of the keyword.
# Absent: shapes may differ in a correct program (uneven all_to_all), or there is nothing to compare.
_COMPARABLE = {
    "all_reduce": (0, "tensor"),
    "broadcast": (0, "tensor"),
    "reduce": (0, "tensor"),
    "all_gather": (1, "input"),
    "gather": (1, "input"),
    "reduce_scatter": (0, "output"),
    "scatter": (0, "output"),
}
_REDUCING = {"all_reduce", "reduce", "reduce_scatter"}
_ROOTED = {"broadcast", "reduce", "gather", "scatter"}


class Call:
    """One collective call on this rank.

    `args` and `kwargs` are as the caller gave them; a listener may assign others before it proceeds.
    Assign, do not mutate: the fingerprint is computed again only for another `args` or `kwargs` object.
    """

    __slots__ = (
        "_issue",
        "_print",
        "_print_of",
        "args",
        "group",
        "group_ranks",
        "inner",
        "kwargs",
        "method",
        "nth",
        "op",
    )

    def __init__(
        self,
        op: str,
        method: str,
        group: str,
        group_ranks: tuple[int, ...],
        nth: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inner: ProcessGroup,
        issue: Callable[..., Work | None],
    ) -> None:
        self.op = op
        self.method = method
        self.group = group
        self.group_ranks = group_ranks
        self.nth = nth
        self.args = args
        self.kwargs = kwargs
        self.inner = inner
        self._issue = issue
        self._print_of: tuple[object, object] | None = None

    def __repr__(self) -> str:
        return f"<Call {self.op} #{self.nth} on {self.group} ({self.method})>"

    def proceed(self) -> Work | None:
        """Issue the call on the inner group with the current arguments; may be called any number of times.

        Returns None where torch itself has no Work: monitored_barrier, and synchronous calls under NCCL.
        """
        return self._issue(*self.args, **self.kwargs)

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """All tensors among the current arguments, flattened in order: outputs and inputs alike."""
        return tuple(_flatten([*self.args, *self.kwargs.values()]))

    def fingerprint(self) -> int:
        """A 64-bit hash, the same on every rank and in every run, of what ranks must agree on.

        That is op, reduce op, root, and the shapes and dtypes of those tensors whose shape may not differ
        between ranks (for all_gather the input, for all_to_all only the dtype, for send, recv and barriers
        nothing). The group is not in it: compare calls of one group.
        """
        of = self._print_of
        if of is None or of[0] is not self.args or of[1] is not self.kwargs:
            self._print_of = (self.args, self.kwargs)
            self._print = _digest(self._key())
        return self._print

    def _key(self) -> tuple[Any, ...]:
        op = self.op
        shapes: tuple[Any, ...] = ()
        if op in _COMPARABLE:
            given = self._argument(*_COMPARABLE[op])
            if type(given) is list and len(given) == 1 and isinstance(tensor := given[0], torch.Tensor):
                shapes = ((tensor.shape, tensor.dtype),)  # by far the most common, and three times as fast
            else:
                shapes = tuple((t.shape, t.dtype) for t in _flatten(given))
        elif op == "all_to_all":
            shapes = tuple({t.dtype for t in self.tensors})
        return (
            op,
            shapes,
            self._reduce_op() if op in _REDUCING else None,
            self._root() if op in _ROOTED else None,
        )

    def _argument(self, position: int, keyword: str) -> Any:
        if position < len(self.args):
            return self.args[position]
        # One argument has had several names in torch: input, inputs, input_tensors …
        return next((value for name, value in self.kwargs.items() if keyword in name.lower()), ())

    def _reduce_op(self) -> Any:
        last = getattr(self.args[-1], "reduceOp", None) if self.args else None
        if last is not None:  # the usual case, without looking at anything else
            return hash(last)
        # The options object, or else the operator itself, comes last or nearly so.
        for value in (*self.kwargs.values(), *reversed(self.args)):
            op = getattr(value, "reduceOp", value)
            # SUM and its like are RedOpType values, which pass for ReduceOp too; a real ReduceOp wraps one.
            if isinstance(op, ReduceOp):
                return hash(op)  # the number of its kind; to ask for `op.op.value` takes microseconds
        return None

    def _root(self) -> int | None:
        for value in (*self.kwargs.values(), *reversed(self.args)):
            if isinstance(value, int):
                return value
            if hasattr(value, "rootRank"):
                return int(value.rootRank)
        return None


def _flatten(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _flatten(item)]
    return []


@lru_cache(maxsize=4096)
def _digest(key: tuple[Any, ...]) -> int:
    # Not hash(): Python salts the hash of strings in every process.
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "big")
