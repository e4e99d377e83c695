"""Fires around the forward or the backward of a submodule that is known by its name in the model.

The hooks are torch's global ones, so a model is found however it is wrapped and wherever it is made. Names
become known when the outermost module is called for the first time. For a backward, hooks on the tensors
that go in and come out are used, never module hooks: those put functions of their own into the graph. May
not change a value or a gradient.
"""

from __future__ import annotations

import functools
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch
from torch.autograd.graph import get_gradient_edge, register_multi_grad_hook
from torch.nn.modules import module as torch_module

from chaoskit.model import Phase
from chaoskit.rank.triggers import Fire, Shot

_WRAPPERS: Final = frozenset(
    {"module", "_fsdp_wrapped_module", "_orig_mod", "_checkpoint_wrapped_module", "_forward_module"}
)
"""What DDP, FSDP, torch.compile, activation checkpointing and Lightning call the module that they wrap."""
_PENDING_MAX: Final = 64
"""Forwards without a backward for which hooks on leaves (parameters) are kept."""


def plain_name(dotted: str) -> str:
    """Return a module's name without the parts that wrappers add."""
    return ".".join(part for part in dotted.split(".") if part not in _WRAPPERS)


def watch(shots: Iterable[Shot], fire: Fire) -> None:
    """Install the hooks for triggers of the kinds forward and backward."""
    hooks = _Hooks(tuple(shots), fire)
    torch_module.register_module_forward_pre_hook(hooks.before)
    torch_module.register_module_forward_hook(hooks.after)


class _Hooks:
    def __init__(self, shots: tuple[Shot, ...], fire: Fire) -> None:
        self._forward = [s for s in shots if s.when.kind == "forward"]
        self._backward = [s for s in shots if s.when.kind == "backward"]
        self._fire = fire
        self._names = Names()
        self._due: dict[int, list[Shot]] = {}  # by module: to fire when its forward has ended
        self._on_leaves: deque[list[Any]] = deque()

    def before(self, module: torch.nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        self._names.of(module)  # the outermost is the first to come by, and makes the others known
        for shot in self._forward:
            if self._names.means(shot.when.module, module) and shot.due():
                if shot.when.phase is Phase.AFTER:
                    self._due.setdefault(id(module), []).append(shot)
                else:
                    self._fire(shot)

    def after(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        for shot in self._due.pop(id(module), ()):
            self._fire(shot)
        if not torch.is_grad_enabled():
            return
        for shot in self._backward:
            if (shot.fault.repeats or not shot.fired) and self._names.means(shot.when.module, module):
                self._await_backward(shot, module, args, output)

    def _await_backward(self, shot: Shot, module: torch.nn.Module, args: Any, output: Any) -> None:
        """Before: the gradient of what came out is there. After: those of all that went in are, or, where
        nothing that went in has one, those of the module's own parameters."""
        reached = functools.partial(self._reached, shot)
        if shot.when.phase is not Phase.AFTER:
            if tensors := list(_differentiable(output)):
                register_multi_grad_hook(tensors, reached, mode="any")
            return
        tensors = list(_differentiable(args)) or [p for p in module.parameters() if p.requires_grad]
        if not tensors:
            return
        handles = _when_all_are_there(tensors, reached)
        if any(t.is_leaf for t in tensors):  # they outlive the graph, and so would the hooks
            self._on_leaves.append(handles)
            if len(self._on_leaves) > _PENDING_MAX:
                for handle in self._on_leaves.popleft():
                    handle.remove()

    def _reached(self, shot: Shot, _: Any = None) -> None:
        if shot.due():
            self._fire(shot)


class Names:
    """The dotted names of modules, as seen from the outermost ones that were called."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[torch.nn.Module], set[str]]] = {}
        self._roots: list[weakref.ref[torch.nn.Module]] = []

    def means(self, wanted: str, module: torch.nn.Module) -> bool:
        """Return whether ``wanted`` is a name of ``module``, with or without wrappers, or its class."""
        if type(module).__name__.removeprefix("FSDP") == wanted.removeprefix("FSDP"):
            return True  # fully_shard makes a Linear an FSDPLinear
        names = self.of(module)
        if wanted in names:
            return True
        if wanted.rpartition(".")[2] in _WRAPPERS:
            return False
        plain = plain_name(wanted)
        # A wrapper stands for what it wraps: counted once.
        return any(plain_name(n) == plain for n in names if n.rpartition(".")[2] not in _WRAPPERS)

    def of(self, module: torch.nn.Module) -> set[str]:
        """Return the names of ``module``, with the parts that wrappers add."""
        known = self._known.get(id(module))
        if known is None or known[0]() is not module:
            self._learn(module)
            known = self._known[id(module)]
        return known[1]

    def _learn(self, module: torch.nn.Module) -> None:
        """``module`` was put into a known model since it was looked at, or is an outermost one itself."""
        self._roots = [root for root in self._roots if root() is not None]
        for root in self._roots:
            if (there := root()) is not None:
                self._walk(there)
        known = self._known.get(id(module))
        if known is None or known[0]() is not module:
            self._roots.append(weakref.ref(module))
            self._walk(module)

    def _walk(self, root: torch.nn.Module) -> None:
        for name, inner in root.named_modules(remove_duplicate=False):
            key = id(inner)
            known = self._known.get(key)
            if known is None or known[0]() is not inner:
                forget = functools.partial(self._forget, key)
                known = self._known[key] = (weakref.ref(inner, forget), set())
            known[1].add(name)

    def _forget(self, key: int, gone: weakref.ref[torch.nn.Module]) -> None:
        known = self._known.get(key)
        if known is not None and known[0] is gone:
            del self._known[key]


def _when_all_are_there(tensors: list[torch.Tensor], reached: Callable[[], None]) -> list[Any]:
    """Call ``reached`` in each backward when the gradients of all ``tensors`` that get one in it are there.

    Unlike torch's own hook for that, it bears ``autograd.grad()`` and leaves.
    """
    nodes = [get_gradient_edge(t).node for t in tensors]
    missing: dict[int, int] = {}  # by backward pass

    def arrived(_: torch.Tensor) -> None:
        this = torch._C._current_graph_task_id()
        if this not in missing:
            missing[this] = max(1, sum(map(_gets_one, nodes)))
        missing[this] -= 1
        if missing[this] == 0:
            reached()

    return [t.register_hook(arrived) for t in tensors]  # type: ignore[no-untyped-call]


def _gets_one(node: Any) -> bool:
    try:
        return bool(torch._C._will_engine_execute_node(node))
    except RuntimeError:  # a leaf in autograd.grad(): torch cannot tell
        return False


def _differentiable(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in ``value`` that get a gradient."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _differentiable(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _differentiable(one)
