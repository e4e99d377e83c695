"""Where chaoskit's entry goes in a command of the user's."""

from __future__ import annotations

import pytest

from chaoskit.errors import InvalidInput
from chaoskit.launchers.commands import ranks_in, with_entry
from chaoskit.model import Workload

ENTRY = ("-m", "chaoskit.rank", "--plan", "P")
E = " ".join(ENTRY)


def placed(command: str) -> str:
    return " ".join(with_entry(Workload("x", kind="command", args=tuple(command.split())), ENTRY))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("torchrun --nproc-per-node 4 train.py --lr 1", f"torchrun --nproc-per-node 4 {E} train.py --lr 1"),
        ("torchrun --nproc-per-node=4 -m pkg.t a.py", f"torchrun --nproc-per-node=4 {E} -m pkg.t a.py"),
        ("srun -n 4 python train.py", f"srun -n 4 python {E} train.py"),
        ("mpirun -np 4 python -u train.py x.py", f"mpirun -np 4 python -u {E} train.py x.py"),
        ("python -m torch.distributed.run -n 2 t.py", f"python -m torch.distributed.run -n 2 {E} t.py"),
        ("python -m pkg.train", f"python {E} -m pkg.train"),
        ("accelerate launch --config_file c train.py", f"accelerate launch --config_file c {E} train.py"),
        ("my-launcher {rank} tool --n 2", f"my-launcher {E} tool --n 2"),
    ],
)  # fmt: skip
def test_the_entry_stands_right_before_the_program(command: str, expected: str) -> None:
    assert placed(command) == expected


@pytest.mark.parametrize("command", ["torchrun --nproc-per-node 4", "bash run.sh", "train.py"])
def test_a_command_without_a_program_in_sight_says_what_to_write(command: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        placed(command)
    assert "{rank}" in str(raised.value)


@pytest.mark.parametrize(
    ("command", "ranks"),
    [
        ("torchrun --nproc-per-node 4 train.py", 4),
        ("torchrun --nnodes=2 --nproc_per_node=8 train.py --nproc-per-node 3", 16),
        ("srun -n 6 python train.py", 6),
        ("mpirun -np 2 python train.py", 2),
        ("accelerate launch --num_processes=3 train.py", 3),
        ("torchrun --nproc-per-node gpu train.py", None),
        ("python train.py -n 4", None),
    ],
)
def test_the_number_of_ranks_is_read_from_the_launchers_own_options(command: str, ranks: int | None) -> None:
    assert ranks_in(tuple(command.split())) == ranks
