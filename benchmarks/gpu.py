"""Learning, mining and search on a GPU, beside the CPU and what one would write in torch; needs torch and a GPU.

`--device cpu` and `--small` show that it runs where there is no GPU; `--million` adds a million rows, `--accuracy`
leaves speed out. Accuracy is measured on letters and, if PALOMA_DATA has them, pets and cub200.
"""

import os
import platform
import sys
import time
from datetime import date
from typing import Any

import numpy as np

import paloma
from paloma._core.choice import Choice
from paloma._core.locality import Locality
from paloma._core.measure import DISTANCE
from paloma._core.psd import Psd
from paloma._core.space import Beginning, Counts, Pass
from paloma._core.step import Step
from paloma._core.stream import Stream
from paloma._spaces.dense import Dense
from paloma._spaces.device import OnDevice

from .timing import seconds, table

# (triplets, features, classes, triplets a second asked for)
CASES = (
    ("random", 1000, 20, 1_200_000),
    ("labels", 1000, 20, 3_000_000),
    ("random", 1000, 200, 700_000),
    ("labels", 1000, 200, 0),
    ("random", 128, 20, 0),
    ("labels", 128, 20, 0),
    ("random", 768, 20, 0),
    ("labels", 768, 20, 0),
    ("random", 2048, 20, 0),
    ("labels", 2048, 20, 0),
)


def drawn(kind: str, codes: Any, n: int, rng: np.random.Generator) -> Any:
    """Random triplets; or as labels give them, three targets times ten impostors of each anchor."""
    if kind == "random":
        return rng.integers(0, len(codes), (n, 3))
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(codes.max() + 2))
    anchors = rng.integers(0, len(codes), n // 30)
    own, size = starts[codes[anchors]][:, None], np.diff(starts)[codes[anchors]][:, None]
    grid = np.empty((len(anchors), 3, 10, 3), np.int64)
    grid[..., 0] = anchors[:, None, None]
    grid[..., 1] = order[own + rng.integers(0, 1 << 30, (len(anchors), 3)) % size][:, :, None]
    grid[..., 2] = rng.integers(0, len(codes), (len(anchors), 10))[:, None, :]
    return grid.reshape(-1, 3)


def problem(kind: str, d: int, classes: int, n: int) -> tuple[Choice, Any, Any, Any]:
    """A learner, rows, classes and triplets; of random triplets all are active."""
    rng, active = np.random.default_rng(0), kind == "random"
    X, codes = rng.normal(size=(20_000, d)).astype(np.float32), rng.integers(0, classes, 20_000).astype(np.int32)
    C, margin = (1e-9, 1e6) if active else (1e-7, 1.0)
    choice = Choice(DISTANCE, Locality.per_class(0.5), Step.parse("pa1", None), Psd.parse("never", "pa1"), C, margin)
    return choice, X, codes, drawn(kind, codes, n, rng)


def rate(representation: Any, choice: Choice, X: Any, codes: Any, triplets: Any, averaging: bool = False) -> float:
    """Triplets a second of a pass, after a short one that is not counted."""
    rng = np.random.default_rng(0)
    space = representation.begin(choice, Beginning(X, triplets, len(triplets), 2.0, int(codes.max()) + 1, rng))
    for part in (triplets[:8192], triplets):
        begin = time.perf_counter()
        space.learn(choice, Stream(X, part, codes, space.factor), Counts(), Pass(averaging, rng))
    return len(triplets) / (time.perf_counter() - begin)


def by_autograd(torch: Any, X: Any, codes: Any, triplets: Any, device: Any, batch: int = 1024) -> float:
    """Triplets a second of torch's hinge loss under one matrix per class and a shared one, by SGD in batches."""
    rows, classes = torch.tensor(X, device=device), torch.tensor(codes, device=device).long()
    d, n_classes = X.shape[1], int(codes.max()) + 1
    shared = torch.eye(d, device=device, requires_grad=True)
    local = torch.eye(d, device=device).repeat(n_classes, 1, 1).requires_grad_()
    optimizer, order = torch.optim.SGD([shared, local], lr=1e-9), torch.tensor(triplets, device=device)

    def value(pairs: Any) -> Any:
        apart, own = rows[pairs[:, 0]] - rows[pairs[:, 1]], classes[pairs[:, 1]]
        order = torch.argsort(own)
        counts = torch.bincount(own, minlength=n_classes).tolist()
        out = 0.5 * ((apart @ shared) * apart).sum(1)
        parts = [(part @ local[c] * part).sum(1) for c, part in enumerate(apart[order].split(counts)) if len(part)]
        return out[order] + 0.5 * torch.cat(parts), order

    def step(part: Any) -> None:
        optimizer.zero_grad()
        near, first = value(part[:, :2])
        far, second = value(part[:, [0, 2]])
        near = torch.empty_like(near).index_copy(0, first, near)
        far = torch.empty_like(far).index_copy(0, second, far)
        torch.relu(1.0 + near - far).mean().backward()
        optimizer.step()

    step(order[:batch])
    _wait(torch, device)
    begin, n = time.perf_counter(), 0
    while time.perf_counter() - begin < 3.0 and n + batch <= len(order):
        step(order[n : n + batch])
        n += batch
        _wait(torch, device)
    return n / (time.perf_counter() - begin)


def one_by_one(torch: Any, X: Any, codes: Any, triplets: Any, device: Any) -> float:
    """Triplets a second of the sequential update, written down in torch."""
    rows, d = torch.tensor(X, device=device), X.shape[1]
    shared, local = torch.eye(d, device=device), torch.eye(d, device=device).repeat(int(codes.max()) + 1, 1, 1)
    begin, n = time.perf_counter(), 0
    while time.perf_counter() - begin < 3.0 and n < len(triplets):
        p, q, r = triplets[n]
        a, b, i, j = rows[p] - rows[q], rows[p] - rows[r], codes[q], codes[r]
        gap = 1.0 + 0.5 * (a @ (shared + local[i]) @ a - b @ (shared + local[j]) @ b)
        aa, bb, ab = a @ a, b @ b, a @ b
        norm = 0.25 * (aa * aa + bb * bb - 2 * ab * ab) + 0.25 * (aa * aa + bb * bb)
        tau = torch.clamp(torch.minimum(gap / norm, gap.new_tensor(1e-7)), min=0.0)
        shared.addr_(a, a, alpha=-0.5 * float(tau)).addr_(b, b, alpha=0.5 * float(tau))
        local[i].addr_(a, a, alpha=-0.5 * float(tau))
        local[j].addr_(b, b, alpha=0.5 * float(tau))
        n += 1
    return n / (time.perf_counter() - begin)


def _wait(torch: Any, device: Any) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def learning(torch: Any, device: str, small: bool) -> None:
    body = []
    for kind, d, classes, asked in CASES[:2] if small else CASES:
        d, n = (64, 1 << 13) if small else (d, 1 << 19)
        data = problem(kind, d, classes, n)
        ours = rate(OnDevice(device=device), *data)
        averaged = rate(OnDevice(device=device), *data, averaging=True)
        with paloma.tf32():
            rough = rate(OnDevice(device=device), *data)
        few = data[3][: len(data[3]) // 32]
        cpu = rate(Dense(), *data[:3], few)
        met = "" if not asked or small else f"{asked:,} {'met' if ours >= asked else 'MISSED'}"
        body.append(
            [f"{kind}, d={d}, c={classes}", f"{ours:,.0f}", f"{averaged:,.0f}", f"{rough:,.0f}", f"{cpu:,.0f}", met]
        )
    columns = ["triplets", f"{device}", "with averages", "in TF32", "CPU, same machine", "asked for"]
    table("Learning LODML, float32, triplets a second", columns, body)
    _, X, codes, triplets = problem("labels", 64 if small else 1000, 20, 1 << 15)
    others = [
        ["autograd, hinge loss, SGD, batches of 1,024 (not the same iterates)", by_autograd],
        ["the sequential update in torch (the same iterates)", one_by_one],
    ]
    rows = [[name, f"{function(torch, X, codes, triplets, device):,.0f}"] for name, function in others]
    table("What one would write in torch, triplets a second", ["d=1000, c=20, triplets from labels", device], rows)


def products(torch: Any, device: str) -> None:
    body = []
    for d in (768, 1000, 2048):
        a, b = torch.randn(2048, d, device=device), torch.randn(d, d, device=device)

        def product(a: Any = a, b: Any = b) -> None:
            for _ in range(100):
                a @ b
            _wait(torch, device)

        body.append([str(d), f"{2 * 2048 * d * d * 100 / seconds(product) / 1e12:.1f}"])
    table("Matrix products (2048, d) x (d, d) in float32", ["d", "TFLOP/s"], body)


def accuracy(device: str, small: bool) -> None:
    """The default vote on official test rows, learned on the CPU, on the device, and there in TF32."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    names = ["letters", *(["pets", "cub200"] if os.environ.get("PALOMA_DATA") and not small else [])]
    body = []
    for name in names:
        data = paloma.datasets.load(name)
        train, test = (data.train_idx, data.test_idx) if "test_idx" in data else np.split(np.arange(20_000), [16_000])
        train = train[:2000] if small else train
        X = data.data.astype(np.float32)
        prepared = PCA(200, random_state=0) if X.shape[1] > 200 else StandardScaler()
        few = prepared.fit(X[train]).transform(X)
        for kind, rows in [(paloma.LODML, few), *([(paloma.L2ODML, X)] if X.shape[1] > 200 else [])]:
            found = [_accuracy(kind, where, rows, data.target, train, test) for where in (None, device)]
            with paloma.tf32():
                found.append(_accuracy(kind, device, rows, data.target, train, test))
            cells = [f"{score:.4f} ({took:.1f} s)" for score, took in found]
            body.append([f"{name}, {kind.__name__}, d={rows.shape[1]}", *cells, f"{found[1][0] - found[0][0]:+.4f}"])
    table("Accuracy, and seconds of fit", ["rows held out", "CPU", device, f"{device}, TF32", "difference"], body)


def _accuracy(kind: Any, device: Any, X: Any, y: Any, train: Any, test: Any) -> tuple[float, float]:
    begin = time.perf_counter()
    metric = kind(random_state=0, device=device).fit(X[train], y[train])
    took = time.perf_counter() - begin
    print(f"{kind.__name__}, {len(train):,} rows on {device}: {took:.1f} s", file=sys.stderr)
    return paloma.MetricKNeighborsClassifier(metric).fit(X[train], y[train]).score(X[test], y[test]), took


def million(torch: Any, device: str, n: int = 1_000_000, d: int = 768, classes: int = 1000) -> None:
    """From labels to a model, and queries against all rows."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, n)
    X = rng.normal(size=(classes, d)).astype(np.float32)[y] * 0.4 + rng.standard_normal((n, d), np.float32)
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    metric = paloma.LODML(n_epochs=1, random_state=0, device=device).fit(X, y)
    learned = time.perf_counter() - begin
    peak = torch.cuda.max_memory_allocated() / 2**30
    begin = time.perf_counter()
    index = paloma.MetricKNeighborsClassifier(metric).fit(X, y)
    placed = time.perf_counter() - begin
    begin = time.perf_counter()
    index.kneighbors(X[:10_000], 10)
    found = time.perf_counter() - begin
    body = [
        ["labels to model, seconds", f"{learned:.1f}"],
        ["triplets, millions", f"{metric.n_triplets_ / 1e6:.1f}"],
        ["peak device memory while learning, GiB", f"{peak:.1f}"],
        ["read-out and rows under it, seconds", f"{placed:.1f}"],
        ["10,000 queries, k=10, exact, seconds", f"{found:.2f}"],
    ]
    table(f"{n:,} x {d} rows, {classes} classes", ["on one GPU", ""], body)


def main(options: list[str] | None = None) -> None:
    import torch

    options = options or []
    device = options[options.index("--device") + 1] if "--device" in options else "cuda"
    small = "--small" in options
    where = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.machine()
    print(f"{date.today()}, {where}, torch {torch.__version__}, Python {platform.python_version()}")
    if "--accuracy" not in options:
        if not small:
            products(torch, device)
        learning(torch, device, small)
    accuracy(device, small)
    if "--million" in options:
        million(torch, device)
