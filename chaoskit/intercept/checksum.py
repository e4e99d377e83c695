"""A checksum of tensors, bit for bit: equal where every bit is, and different where one is not.

Vectorised, on the device where a tensor lies, with one number brought to the CPU. May not judge anything.
"""

from collections.abc import Iterable

import torch

_LANES_CPU = 1 << 16  # of 8 bytes at a time: intermediate results stay in the cache
_LANES_GPU = 1 << 22  # fewer kernels
_ODD = -7046029254386353131  # 2**64 / golden ratio, as a signed number; odd, so multiplying loses no bit
_MASK = (1 << 64) - 1
_weights: dict[torch.device, torch.Tensor] = {}


def checksum(tensors: Iterable[torch.Tensor]) -> int:
    """63 bits of the bytes of ``tensors`` and their order. Each has to be a plain tensor with storage.

    On the CPU about 0.4 ms for each MiB. Integer arithmetic modulo 2**64, so neither the number of threads
    nor the order in which a device adds changes it.
    """
    total: torch.Tensor | None = None
    for tensor in tensors:
        of = _of_one(tensor.detach())
        total = of if total is None else total.to(of.device) * _ODD + of
    # Multiplied once more: the bit that is dropped here would else be all that some totals differ by.
    return 0 if total is None else (int(total.item()) * _ODD & _MASK) >> 1


def _of_one(tensor: torch.Tensor) -> torch.Tensor:
    whole = _lanes(tensor)
    weights = _weights_on(tensor.device)
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for lanes in torch.split(whole, weights.numel()):
        # Weighted by position; then mixed downwards, because a sum alone would let two flipped signs cancel.
        mixed = lanes * weights[: lanes.numel()]
        mixed ^= mixed >> 29
        total = total * _ODD + mixed.sum()
    return total + (tensor.numel() + 1)


def _lanes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of ``tensor`` in logical order as 64-bit numbers, the last one filled up with zeros."""
    flat = tensor.contiguous().view(-1).view(torch.uint8)
    rest = flat.numel() % 8
    if rest:
        flat = torch.cat([flat, torch.zeros(8 - rest, dtype=torch.uint8, device=flat.device)])
    elif flat.data_ptr() % 8 or flat.storage_offset() % 8:
        flat = flat.clone()
    return flat.view(torch.int64)


def _weights_on(device: torch.device) -> torch.Tensor:
    found = _weights.get(device)
    if found is None:
        size = _LANES_CPU if device.type == "cpu" else _LANES_GPU
        found = torch.arange(1, size + 1, dtype=torch.int64, device=device) * _ODD
        found = _weights[device] = (found ^ (found >> 31)) | 1
    return found
