"""Pure functions of a history: what happened, who did it, and whether the contract was kept.

Nothing here starts, reads or waits for anything; a judge that raises is chaoskit's own fault.
"""
