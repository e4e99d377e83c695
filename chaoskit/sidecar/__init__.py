"""A small process beside each rank of a job that some other launcher started: the *keeper*.

It is the rank's parent and sees what no code in the rank can: that it was stopped, that it holds the GIL,
that it swallows a signal, how it ended. What is done about it is a watcher's business: the guard ``sidecar``
is one (:mod:`chaoskit.sidecar.protection`), a recorder of a run may be another. Standard library only: the
keeper never imports torch.
"""
