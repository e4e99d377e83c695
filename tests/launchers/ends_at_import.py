"""Preloaded by a test: a library that ends the process when it is imported."""

import os
import sys

print("last words", file=sys.stderr, flush=True)
os._exit(9)
