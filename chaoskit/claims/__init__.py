"""What people are told about hangs and settings, and what it really does on the torch that is installed.

A claim is one YAML file (those that come with chaoskit are in ``told/``): what is told, by whom, the setting,
the scenarios it is tried on, and what would have to be seen for it to be true. Claims are run like any other
scenario, with and without the setting, several times. Nothing is stated that was not observed.
"""
