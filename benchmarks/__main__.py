"""``python -m benchmarks [name ...] [--option ...]``: what people wait for, in one screen, or the benchmarks named.

FULL=1 without a name: all but the slow ones. Options go to the benchmarks named.
"""

import importlib
import os
import sys
from itertools import takewhile

NAMES = (
    "feel", "learning", "mining", "logdet", "search", "index", "memory", "accuracy", "projection", "growth",
    "modalities", "kernels", "pipe", "noise", "semi", "streams", "paper_peers", "distributed", "walk",
)  # fmt: skip
SLOW = ("quality", "feedback", "gpu", "serve", "database", "peers")

named = list(takewhile(lambda argument: not argument.startswith("--"), sys.argv[1:]))
options = sys.argv[1 + len(named) :]
if unknown := sorted(set(named) - {*NAMES, *SLOW}):
    sys.exit(f"benchmarks: unknown name {unknown[0]!r}; there are {', '.join((*NAMES, *SLOW))}.")
for name in named or (NAMES if os.environ.get("FULL") else NAMES[:1]):
    main = importlib.import_module(f"benchmarks.{name}").main
    main(options) if options else main()
