"""What goes wrong: one file per fault, each a frozen dataclass whose docstring is its documentation.

A fault makes one thing happen at the moment it is given and knows nothing else: no contract, no
recorder, no other fault. The runner imports these modules too, so none imports torch at its top.

A new fault is one file with one subclass of :class:`~chaoskit.faults.family.RankFault`, found by its
name (``hold-gil`` in hold_gil.py), or an entry point of the group ``chaoskit.faults``.
"""

from chaoskit.faults.family import REGISTRY, Moment, RankFault

__all__ = ["REGISTRY", "Moment", "RankFault"]
