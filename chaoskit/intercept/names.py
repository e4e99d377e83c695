"""The names by which users know groups, unique on a rank and the same on every rank.

May not touch a process group.
"""

DEFAULT = "default"

# Every group that this rank has heard of since init, its own or not: (name as wanted, number, ranks).
_claimed: list[tuple[str, int, frozenset[int]]] = []


def reset() -> None:
    """Forget all names; the default group is about to be made."""
    _claimed.clear()


def user_name(description: str | None, torch_name: str) -> str:
    """The user's own description of a group, or torch's name where there is none."""
    return torch_name if description in (None, "", "undefined") else str(description)


def claim(name: str, ranks: tuple[int, ...]) -> str:
    """`name`, with #2, #3 … if a group of that name has a rank in common with this one.

    Disjoint groups of one name (the rows of a device mesh) keep it: for each rank it is still unique. Groups
    that this rank is not in claim theirs too, so that all ranks number alike. That works as new_group is
    called on all ranks; with use_local_synchronization=True it is not, and ranks may number differently.
    """
    members = frozenset(ranks)
    taken = {number for known, number, others in _claimed if known == name and others & members}
    number = next(n for n in range(1, len(taken) + 2) if n not in taken)
    _claimed.append((name, number, members))
    return name if number == 1 else f"{name}#{number}"
