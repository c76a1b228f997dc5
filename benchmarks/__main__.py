"""``python -m benchmarks [name ...]``: run all benchmarks, or those named."""

import importlib
import sys

NAMES = ("learning", "search", "memory", "accuracy", "projection", "growth", "peers")

for name in sys.argv[1:] or NAMES:
    importlib.import_module(f"benchmarks.{name}").main()
