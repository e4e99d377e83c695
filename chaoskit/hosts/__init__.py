"""Virtual hosts: a network namespace, a name and a hosts file each, joined by switches.

Namespaces are anonymous and held by descriptors of the warden, so nothing of them can outlive an arm. The
``switch`` is the one process that changes the network while the arm runs.
"""
