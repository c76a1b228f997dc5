"""Peak memory of fit, measured in a process of its own (Linux)."""

import subprocess
import sys
from pathlib import Path

from .timing import table, verdict


def child() -> None:
    """Fit 50,000 x 256 rows of 10 classes from labels; print the growth of the peak beyond the input, in MB."""
    import numpy as np

    import paloma

    rng = np.random.default_rng(0)
    warm = rng.normal(size=(200, 256)).astype(np.float32)
    paloma.LODML(n_epochs=1, random_state=0).fit(warm, rng.integers(0, 10, 200))
    Path("/proc/self/clear_refs").write_text("5")  # the peak of compilation is not the peak of fit
    before = status("VmRSS")
    centers = rng.normal(size=(10, 256)).astype(np.float32)
    y = rng.integers(0, 10, 50_000)
    X = rng.standard_normal((50_000, 256), dtype=np.float32)
    X += centers[y]
    paloma.LODML(random_state=0).fit(X, y)
    print((status("VmHWM") - before) / 1024 - X.nbytes / 2**20)


def status(key: str) -> int:
    """A line of this process's status, in kB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1])


def main() -> None:
    code = "from benchmarks.memory import child; child()"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    extra = float(done.stdout)
    row = ["LODML.fit, 50,000 x 256 float32, 10 classes", f"{extra:.0f}", verdict(extra, 400, at_least=False)]
    table("Peak memory, MB beyond the input", ["", "MB", "asked for"], [row])
