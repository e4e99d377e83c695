"""Preloaded by a test: a machine that lets nobody make a network namespace."""

from chaoskit.launchers import isolation

isolation._possible = False
