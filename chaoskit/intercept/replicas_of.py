"""The tensors that are replicated: of a DistributedDataParallel, of an optimizer with DTensors; their names.

May not look at what they hold.
"""

import sys
from collections.abc import Iterator
from types import ModuleType

import torch
from torch.nn.parallel import DistributedDataParallel


def trained(ddp: DistributedDataParallel) -> list[int]:
    """Which of the parameters that it does not ignore require a gradient."""
    return [index for index, p in enumerate(ddp._module_parameters) if p.requires_grad]


def in_ddp(kept: list[int], ddp: DistributedDataParallel) -> list[torch.Tensor]:
    return [ddp._module_parameters[index] for index in kept]


def names_in_ddp(kept: list[int], ddp: DistributedDataParallel) -> tuple[str, ...]:
    """What the script calls them: as in ``module.named_parameters()``."""
    known = {id(parameter): name for name, parameter in ddp.module.named_parameters()}
    found = [known.get(id(ddp._module_parameters[index]), f"parameter {index}") for index in kept]
    return tuple(name.replace("_orig_mod.", "") for name in found)  # torch.compile's own


def dtensors(
    optimizer: torch.optim.Optimizer,
) -> Iterator[tuple[tuple[int, ...], torch.Tensor, str]]:
    """Every DTensor of `optimizer` that is whole on each rank of its mesh, with these ranks and its name: its
    place, where the optimizer was not given the model's names."""
    tensor: ModuleType | None = sys.modules.get("torch.distributed.tensor")
    if tensor is None:
        return
    for number, group in enumerate(optimizer.param_groups):
        named = group.get("param_names") or ()
        for index, parameter in enumerate(group["params"]):
            if isinstance(parameter, tensor.DTensor) and all(p.is_replicate() for p in parameter.placements):
                mesh = parameter.device_mesh
                if mesh.size() > 1:
                    name = named[index] if index < len(named) else f"parameter {index} of group {number}"
                    yield tuple(sorted(mesh.mesh.flatten().tolist())), parameter, name


def on_mesh(ranks: tuple[int, ...], optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [tensor for of, tensor, _ in dtensors(optimizer) if of == ranks]


def names_on_mesh(ranks: tuple[int, ...], optimizer: torch.optim.Optimizer) -> tuple[str, ...]:
    return tuple(str(name) for of, _, name in dtensors(optimizer) if of == ranks)


def local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def has_bits(tensor: torch.Tensor) -> bool:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.device.type not in ("cpu", "cuda"):
        return False
    # Reading a number back would break a CUDA graph that is being captured.
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
