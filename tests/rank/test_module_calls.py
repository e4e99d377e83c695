"""Submodules by name, under the wrappers that models come in; gradients stay as they were."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as torch_module

from chaoskit.faults.kill import Kill
from chaoskit.model import Injection, Phase, Trigger
from chaoskit.rank import module_calls
from chaoskit.rank.module_calls import Names, plain_name
from chaoskit.rank.triggers import Shot, shots_of

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def own_hooks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("_global_forward_pre_hooks", "_global_forward_hooks"):
        monkeypatch.setattr(torch_module, name, OrderedDict())
    return


def watched(*whens: Trigger) -> tuple[list[Shot], list[str]]:
    shots = [shots_of((Injection(Kill((0,)), when),), 0)[0] for when in whens]
    fired: list[str] = []

    def fire(shot: Shot) -> None:
        shot.fired = True
        fired.append(str(shot.when))

    module_calls.watch(shots, fire)
    return shots, fired


class Wrapper(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 2)))


def test_names_with_and_without_the_parts_that_wrappers_add() -> None:
    assert plain_name("module._orig_mod.layer.2") == "layer.2"
    inner = model()
    inner[1] = Wrapper(inner[1])
    whole, names = Wrapper(inner), Names()
    names.of(whole)
    linear, wrapped = inner[1].module[1], inner[1]
    assert all(names.means(n, linear) for n in ("1.1", "module.1.1", "module.1.module.1", "Linear"))
    assert not any(names.means(n, linear) for n in ("0", "1", "1.0", ""))
    assert names.means("1", wrapped)
    assert not names.means("1", wrapped.module)  # counted once: the wrapper stands for it
    assert names.means("module.1.module", wrapped.module)


def test_a_module_that_is_put_in_later_and_a_part_that_was_called_alone_have_their_names() -> None:
    whole, names = model(), Names()
    names.of(whole[1])
    names.of(whole)
    assert names.means("1.1", whole[1][1])
    whole[0] = nn.Linear(3, 3)
    assert names.means("0", whole[0])


def test_the_nth_forward_before_and_after() -> None:
    first, second = (Trigger("forward", module="1.1", nth=2, phase=Phase(p)) for p in ("before", "after"))
    shots, fired = watched(first, second)
    net = Wrapper(model())
    net(torch.ones(1, 3))
    assert not fired
    net(torch.ones(1, 3))
    assert fired == [str(first), str(second)]
    net(torch.ones(1, 3))
    assert [s.count for s in shots] == [3, 3]


def grads(net: nn.Module, *, again: bool) -> list[Any]:
    x = torch.linspace(0, 1, 6).reshape(2, 3).requires_grad_()
    loss = net(x).square().sum()
    first = torch.autograd.grad(loss, [x, *net.parameters()], create_graph=again, allow_unused=True)
    if not again:
        return list(first)
    return list(torch.autograd.grad(sum(g.square().sum() for g in first), list(net.parameters())))


@pytest.mark.parametrize("again", [False, True], ids=["backward", "double backward"])
def test_gradients_are_the_same_bit_for_bit(again: bool) -> None:
    torch.manual_seed(0)
    net = model()
    plain = grads(net, again=again)
    phases = [
        Trigger("backward", module=m, nth=9, phase=Phase(p))
        for m in ("1.1", "0", "1")
        for p in ("before", "after")
    ]
    shots, _ = watched(*phases)
    for one, other in zip(plain, grads(net, again=again), strict=True):
        assert torch.equal(one, other)
    assert all(s.count >= 1 for s in shots)


def test_a_parameter_that_no_gradient_reaches_does_not_hide_the_backward() -> None:
    class Partly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(3, 1), nn.Linear(3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x)

    (shot,), fired = watched(Trigger("backward", module="Partly", phase=Phase.AFTER))
    net = Partly()
    with torch.no_grad():
        net(torch.ones(1, 3))
    assert shot.count == 0
    net(torch.ones(1, 3)).sum().backward()
    assert len(fired) == 1
    for _ in range(200):  # forwards whose loss is thrown away leave nothing behind
        net(torch.ones(1, 3))
    assert len(net.used.weight._backward_hooks or ()) <= module_calls._PENDING_MAX


def test_a_compiled_model_is_met_as_a_whole() -> None:
    (whole, inner), fired = watched(Trigger("forward", module="Sequential"), Trigger("forward", module="1.1"))
    compiled = torch.compile(model(), backend="eager")
    assert compiled(torch.ones(1, 3)).shape == (1, 2)
    assert whole.count + inner.count == len(fired)
