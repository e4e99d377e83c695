"""Who starts the ranks, and who sees to it that nothing of them stays.

A fork server (:mod:`~chaoskit.launchers.forkserver`) with torch loaded forks one warden
(:mod:`~chaoskit.launchers.warden`) for each arm; the warden is the parent of the arm's ranks. Importing this
package imports neither torch nor ``multiprocess``: it also happens in the server before anything else.
"""
