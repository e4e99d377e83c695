"""One collective call as this rank sees it, and what of it can be compared with other ranks.

A Call issues itself on the inner group and describes itself. It may not know of listeners.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch._C import _distributed_c10d
from torch.distributed import ProcessGroup, ReduceOp, Work

# Where the tensors sit whose size every rank must share: argument position and a part of the keyword; then
# whether it reduces, whether it has a root.
# Absent: sizes may differ in a correct program (uneven all_to_all), or there is nothing to compare.
_COMPARABLE = {
    "all_reduce": (0, "tensor", True, False),
    "broadcast": (0, "tensor", False, True),
    "reduce": (0, "tensor", True, True),
    "all_gather": (1, "input", False, False),
    "gather": (1, "input", False, True),
    "reduce_scatter": (0, "output", True, False),
    "scatter": (0, "output", False, True),
}
_TO_A_PEER = frozenset({"send", "recv"})  # methods whose second argument is a rank of the group
_OPTIONS = [kind for name, kind in vars(_distributed_c10d).items() if name.endswith("Options")]
_WITH_REDUCE_OP = frozenset(kind for kind in _OPTIONS if hasattr(kind, "reduceOp"))
# By type rather than by getattr with a default: that takes twice the time.
SAY_IF_ASYNC = frozenset(kind for kind in _OPTIONS if hasattr(kind, "asyncOp"))
_DEFAULT_REDUCE_OP = hash(ReduceOp.SUM)  # what torch takes where the caller says nothing
_Tensor = torch.Tensor


class Call:
    """One collective call on this rank.

    `args` and `kwargs` are as the caller gave them; a listener may assign others before it proceeds.
    Assign, do not mutate: the fingerprint is computed again only for another `args` or `kwargs` object.
    `note` is None at first, and the outermost listener's to use.
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
        "note",
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
        self.note: Any = None

    def __repr__(self) -> str:
        return f"<Call {self.op} #{self.nth} on {self.group} ({self.method})>"

    def proceed(self) -> Work | None:
        """Issue the call on the inner group with the current arguments; may be called any number of times.

        Returns None where torch itself has no Work: monitored_barrier, and synchronous calls under NCCL.
        """
        kwargs = self.kwargs
        return self._issue(*self.args, **kwargs) if kwargs else self._issue(*self.args)

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """All tensors among the current arguments, flattened in order: outputs and inputs alike."""
        return tuple(_flatten([*self.args, *self.kwargs.values()]))

    @property
    def peer(self) -> int:
        """The global rank at the other side of a send or recv; -1: none, or it may be anyone."""
        if self.method not in _TO_A_PEER:
            return -1
        value = self.args[1] if len(self.args) > 1 else self._named("rank")
        known = isinstance(value, int) and 0 <= value < len(self.group_ranks)
        return self.group_ranks[value] if known else -1

    def fingerprint(self) -> int:
        """A 64-bit hash, the same on every rank and in every run, of what ranks must agree on.

        That is op, reduce op, root, and the dtypes and numbers of elements of tensors whose size may not
        differ between ranks (for all_gather the input, for all_to_all only the dtype, for send, recv and
        barriers nothing). Shapes may differ: torch moves elements. The group is not in it: compare calls of
        one group.
        """
        of = self._print_of
        if of is None or of[0] is not self.args or of[1] is not self.kwargs:
            self._print_of = (self.args, self.kwargs)
            self._print = _digest(self.key())
        return self._print

    def key(self) -> tuple[Any, ...]:
        """What the fingerprint is a hash of. Computed each time; cheaper, to compare calls of one process."""
        op, args = self.op, self.args
        if op == "all_reduce" and len(args) == 2 and type(args[1]) in _WITH_REDUCE_OP:
            # The usual call of the usual collective: half the time of what follows, for the same answer.
            given = args[0]
            if type(given) is list and len(given) == 1:
                tensor = given[0]
                return (op, ((tensor.numel(), tensor.dtype),), hash(args[1].reduceOp), None)
        shared = _COMPARABLE.get(op)
        if shared is None:
            return (op, tuple({t.dtype for t in self.tensors}) if op == "all_to_all" else (), None, None)
        position, keyword, reduces, rooted = shared
        given = args[position] if position < len(args) else self._named(keyword)
        if type(given) is list and len(given) == 1:
            given = given[0]
        sizes: tuple[Any, ...]
        if isinstance(given, _Tensor):
            sizes = ((given.numel(), given.dtype),)  # by far the most common, and three times as fast
        else:
            sizes = tuple((t.numel(), t.dtype) for t in _flatten(given))
        reduce_op = None
        if reduces:
            # The usual case without looking at anything else; the hash is the number of its kind.
            usual = args and type(args[-1]) in _WITH_REDUCE_OP
            reduce_op = hash(args[-1].reduceOp) if usual else self._reduce_op()
        return (op, sizes, reduce_op, self._root() if rooted else None)

    def _named(self, keyword: str) -> Any:
        # One argument has had several names in torch: input, inputs, input_tensors …
        return next((value for name, value in self.kwargs.items() if keyword in name.lower()), ())

    def _reduce_op(self) -> Any:
        # The options object, or else the operator itself, comes last or nearly so.
        for value in (*self.kwargs.values(), *reversed(self.args)):
            op = getattr(value, "reduceOp", value)
            # SUM and its like are RedOpType values, which pass for ReduceOp too; a real ReduceOp wraps one.
            if isinstance(op, ReduceOp):
                return hash(op)  # the number of its kind; to ask for `op.op.value` takes microseconds
        return _DEFAULT_REDUCE_OP

    def _root(self) -> int | None:
        for value in (*self.kwargs.values(), *reversed(self.args)):
            if isinstance(value, int):
                return value
            root = getattr(value, "rootRank", None)
            if root is not None:
                return int(root)
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
