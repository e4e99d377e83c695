"""A training script as a user would write it: several functions, several collectives, each on its own line.

It knows nothing of chaoskit. With ``--record`` its main function has torchrun's ``@record``.
"""

from __future__ import annotations

import sys
import tempfile

import torch
import torch.distributed as dist

STEPS = 9
EVALUATE_EVERY, SAVE_EVERY, HAND_ON_EVERY = 3, 4, 2


def load_batch(step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    return torch.randn(16, 32, generator=generator)


def average_gradients(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        assert parameter.grad is not None
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def clip_gradients(model: torch.nn.Module, limit: float) -> None:
    norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm().reshape(1)
    dist.all_reduce(norm, op=dist.ReduceOp.MAX)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad *= torch.clamp(limit / (norm + 1e-6), max=1.0)


def train_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> torch.Tensor:
    optimizer.zero_grad()
    loss: torch.Tensor = model(load_batch(step)).square().mean()
    loss.backward()  # type: ignore[no-untyped-call]
    average_gradients(model)
    clip_gradients(model, 1.0)
    optimizer.step()
    return loss.detach()


def evaluate(loss: torch.Tensor) -> torch.Tensor:
    losses = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(losses, loss.reshape(1))
    rate = torch.stack(losses).mean().reshape(1)
    dist.broadcast(rate, src=0)
    return rate


def hand_on(loss: torch.Tensor) -> torch.Tensor:
    """Add up the losses along the ranks, as stages of a pipeline hand on what they have."""
    rank, total = dist.get_rank(), loss.reshape(1).clone()
    if rank > 0:
        before = torch.zeros(1)
        dist.recv(before, src=rank - 1)
        total += before
    if rank < dist.get_world_size() - 1:
        dist.send(total, dst=rank + 1)
    return total


def save(model: torch.nn.Module) -> None:
    dist.barrier()
    if dist.get_rank() == 0:
        with tempfile.TemporaryFile() as file:
            torch.save(model.state_dict(), file)
    dist.barrier()


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1, STEPS + 1):
        loss = train_step(model, optimizer, step)
        if step % EVALUATE_EVERY == 0:
            evaluate(loss)
        if step % HAND_ON_EVERY == 0:
            hand_on(loss)
        if step % SAVE_EVERY == 0:
            save(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    if "--record" in sys.argv:
        from torch.distributed.elastic.multiprocessing.errors import record

        record(main)()
    else:
        main()
