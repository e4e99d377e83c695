"""Which guard holds which fault: every scenario under no guard, each guard alone, the profile, and the
profile without one guard.

``making`` runs it in a few batches of the engine; ``earning`` says what a cell is; ``keeping`` keeps finished
cells in a file. Nothing here prints.
"""
