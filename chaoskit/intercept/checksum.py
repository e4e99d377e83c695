"""A checksum of tensors, bit for bit: equal where every bit is, and different where one is not.

Vectorised, on the device where a tensor lies, with one transfer to the CPU for each device: a number for each
tensor, so that it can also be said which one differs. May not judge anything.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence

import torch

_LANES_CPU = 1 << 16  # of 8 bytes at a time: intermediate results stay in the cache
_LANES_GPU = 1 << 22  # fewer kernels
_SMALL = 1 << 13  # lanes of a tensor that is gone over together with others: else calls are all it costs
_TOGETHER = 1 << 16
_ODD = -7046029254386353131  # 2**64 / golden ratio, as a signed number; odd, so multiplying loses no bit
_MASK = (1 << 64) - 1
_weights: dict[torch.device, torch.Tensor] = {}


def checksum(tensors: Iterable[torch.Tensor]) -> int:
    """63 bits of the bytes of ``tensors`` and their order. Each has to be a plain tensor with storage."""
    return combined(numbers(tensors))


def numbers(tensors: Iterable[torch.Tensor]) -> list[int]:
    """64 bits of the bytes of each of ``tensors``, in order.

    On the CPU about 0.4 ms for each MiB. Integer arithmetic modulo 2**64, so neither the number of threads
    nor the order in which a device adds changes it.
    """
    plain = [tensor.detach() for tensor in tensors]
    found = [0] * len(plain)
    for indices, sums in _by_device([_lanes(tensor) for tensor in plain]):
        for index, number in zip(indices, sums.tolist(), strict=True):
            found[index] = (number + plain[index].numel() + 1) & _MASK
    return found


def combined(numbers: Iterable[int]) -> int:
    """63 bits of the numbers and their order."""
    total, some = 0, False
    for number in numbers:
        total, some = (total * _ODD + number) & _MASK, True
    # Multiplied once more: the bit that is dropped here would else be all that some totals differ by.
    return (total * _ODD & _MASK) >> 1 if some else 0


def _by_device(lanes: Sequence[torch.Tensor]) -> Iterator[tuple[list[int], torch.Tensor]]:
    """Yield, device by device, the indices of tensors and the sum of each of them."""
    for device in dict.fromkeys(one.device for one in lanes):
        here = [index for index, one in enumerate(lanes) if one.device == device]
        batches = _batches(lanes, here)
        sums = [_of_several([lanes[index] for index in batch]) for batch in batches]
        yield [index for batch in batches for index in batch], torch.cat(sums)


def _batches(lanes: Sequence[torch.Tensor], indices: Iterable[int]) -> list[list[int]]:
    """Put small tensors together; a large one stays alone."""
    large: list[list[int]] = []
    together: list[list[int]] = [[]]
    room = _TOGETHER
    for index in indices:
        size = lanes[index].numel()
        if size > _SMALL:
            large.append([index])
            continue
        if size > room:
            together.append([])
            room = _TOGETHER
        together[-1].append(index)
        room -= size
    return large + [batch for batch in together if batch]


def _of_several(lanes: Sequence[torch.Tensor]) -> torch.Tensor:
    if lanes[0].numel() > _SMALL:
        return _of_large(lanes[0]).view(1)
    sizes = tuple(one.numel() for one in lanes)
    weights, bounds = _laid_out(lanes[0].device, sizes)
    mixed = _mixed(torch.cat(list(lanes)), weights)
    through = torch.nn.functional.pad(mixed.cumsum(0), (1, 0))[bounds]
    return through[1:] - through[:-1]


def _of_large(whole: torch.Tensor) -> torch.Tensor:
    weights = _weights_on(whole.device)
    total = torch.zeros((), dtype=torch.int64, device=whole.device)
    for lanes in torch.split(whole, weights.numel()):
        total = total * _ODD + _mixed(lanes, weights[: lanes.numel()]).sum()
    return total


def _mixed(lanes: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Weighted by position; then mixed downwards, because a sum alone would let two flipped signs cancel."""
    mixed = lanes * weights
    mixed ^= mixed >> 29
    return mixed


def _lanes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of ``tensor`` in logical order as 64-bit numbers, the last one filled up with zeros."""
    flat = tensor.contiguous().view(-1)
    if flat.stride(0) != 1:  # a single element of a larger tensor counts as contiguous with any stride
        flat = flat.clone(memory_format=torch.contiguous_format)
    rest = flat.numel() * flat.element_size() % 8
    if rest:
        flat = flat.view(torch.uint8)
        flat = torch.cat([flat, torch.zeros(8 - rest, dtype=torch.uint8, device=flat.device)])
    elif flat.data_ptr() % 8 or flat.storage_offset() * flat.element_size() % 8:
        flat = flat.clone()
    return flat.view(torch.int64)


def _weights_on(device: torch.device) -> torch.Tensor:
    found = _weights.get(device)
    if found is None:
        size = _LANES_CPU if device.type == "cpu" else _LANES_GPU
        found = torch.arange(1, size + 1, dtype=torch.int64, device=device) * _ODD
        found = _weights[device] = (found ^ (found >> 31)) | 1
    return found


@functools.lru_cache(maxsize=16)
def _laid_out(device: torch.device, sizes: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """The weights of tensors of these sizes that lie one after the other, and where each begins and ends."""
    weights = _weights_on(device)
    bounds = torch.tensor([0, *sizes]).cumsum(0).to(device)
    return torch.cat([weights[:size] for size in sizes]), bounds
