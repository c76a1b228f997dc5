"""``python -m benchmarks [name ...]``: run all benchmarks, or those named."""

import importlib
import sys

NAMES = (
    "learning", "logdet", "search", "index", "memory", "accuracy", "projection", "growth",
    "modalities", "kernels", "pipe", "noise", "semi", "streams", "peers", "distributed", "walk",
)  # fmt: skip

for name in sys.argv[1:] or NAMES:
    importlib.import_module(f"benchmarks.{name}").main()
