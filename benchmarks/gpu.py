"""Learning, mining and search on a GPU, beside the CPU and what one would write in torch; needs torch and a GPU.

The parts are learning, finding (mining and search), accuracy and million (a million rows): all, or `--parts a,b`.
`--device cpu` and `--small` show that it runs where there is no GPU; then a million rows are left out. Accuracy is
measured on letters and, if PALOMA_DATA has them, pets and cub200.
"""

import os
import platform
import sys
import time
from datetime import date
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import paloma
from paloma._core.choice import Choice
from paloma._core.locality import Locality
from paloma._core.measure import DISTANCE
from paloma._core.psd import Psd
from paloma._core.space import Beginning
from paloma._core.step import Step
from paloma._core.stream import Counts, Pass, Stream
from paloma._search.device import neighbors_by_class
from paloma._spaces.dense import Dense
from paloma._spaces.device import OnDevice
from paloma._training.mining import near

from .timing import seconds, table

PARTS = ("learning", "finding", "accuracy", "million")
FEATURES, CLASSES = (128, 768, 1000, 2048), (20, 200)
# (triplets, features, classes): triplets a second asked for
ASKED = {("random", 1000, 20): 1_200_000, ("labels", 1000, 20): 3_000_000, ("random", 1000, 200): 700_000}


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
        counts = Counts()
        how = Pass(rate=counts.rate if averaging else None, rng=rng)
        space.learn(choice, Stream(X, part, codes, space.factor), counts, how)
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


def cases(small: bool) -> list[tuple[int, int]]:
    """Features and classes to measure."""
    return [(64, 20)] if small else [(d, classes) for d in FEATURES for classes in CLASSES]


def learning(torch: Any, device: str, small: bool, products: dict[int, float]) -> None:
    body = []
    for (d, classes), kind in product(cases(small), ("random", "labels")):
        data = problem(kind, d, classes, 1 << 13 if small else 1 << 19)
        ours = rate(OnDevice(device=device), *data)
        averaged = rate(OnDevice(device=device), *data, averaging=True)
        with paloma.tf32():
            rough = rate(OnDevice(device=device), *data)
        cpu = rate(Dense(), *data[:3], data[3][: len(data[3]) // 32])
        pairs = 2 if kind == "random" else 13 / 30
        share = f"{ours * pairs * 4 * d * d / products[d]:.0%}"
        asked = ASKED.get((kind, d, classes))
        met = "" if asked is None else f"{asked:,} {'met' if ours >= asked else 'MISSED'}"
        speeds = [f"{speed:,.0f}" for speed in (ours, averaged, rough, cpu)]
        body.append([f"{kind}, d={d}, c={classes}", *speeds, share, met])
    columns = ["triplets", device, "with averages", "in TF32", "CPU, same machine", "of products", "asked for"]
    table("Learning LODML, float32, triplets a second", columns, body)
    print(
        "of products: a value and a move of each pair, 4 d^2 operations, as a share of the rate of products above; "
        "inner products of pairs and the sweep come on top. Random triplets have two pairs each; those from labels "
        "share theirs, 13 pairs for 30 triplets."
    )
    _, X, codes, triplets = problem("labels", 64 if small else 1000, 20, 1 << 15)
    others = [
        ["autograd, hinge loss, SGD, batches of 1,024 (not the same iterates)", by_autograd],
        ["the sequential update in torch (the same iterates)", one_by_one],
    ]
    rows = [[name, f"{function(torch, X, codes, triplets, device):,.0f}"] for name, function in others]
    title = f"d={X.shape[1]}, c=20, triplets from labels"
    table("What one would write in torch, triplets a second", [title, device], rows)


def finding(device: str, small: bool) -> None:
    """Mining from labels, and search under the metrics that were learned; both exact, and beside the CPU."""
    n, n_queries = (2_000, 200) if small else (20_000, 2_000)
    body = []
    for d, classes in cases(small):
        rng = np.random.default_rng(0)
        y = rng.integers(0, classes, n).astype(np.int32)
        X = rng.standard_normal((classes, d), np.float32)[y] * 0.4 + rng.standard_normal((n, d), np.float32)
        there = partial(neighbors_by_class, device=device)
        mined = [seconds(partial(near, X, y, 3, 10, 0.1, 3, search=search), 1) for search in (there, None)]
        learner = paloma.LODML(n_epochs=1, guard=False, psd="never", random_state=0, device=device)
        learner.fit(X[:2_000], y[:2_000])
        found = []
        for place in (device, None):
            items = paloma.MetricKNeighborsClassifier(learner.to(place), n_neighbors=10).fit(X, y)
            found.append(seconds(partial(items.kneighbors, X[:n_queries]), 1))
        speeds = [f"{count / took:,.0f}" for times, count in ((mined, n), (found, n_queries)) for took in times]
        body.append([f"d={d}, c={classes}", *speeds])
        print(f"{body[-1][0]}: {sum(mined + found):.1f} s", file=sys.stderr)
    columns = [f"{n:,} rows", f"mined, {device}", "mined, CPU", f"searched, {device}", "searched, CPU"]
    table("Rows a second: mined from labels (3 x 10), searched for (k = 10)", columns, body)


def product_rates(torch: Any, device: str, small: bool) -> dict[int, float]:
    """Operations a second of a product of a block of rows and a matrix, by features."""
    rates = {}
    for d in sorted({d for d, _ in cases(small)}):
        a, b = torch.randn(2048, d, device=device), torch.randn(d, d, device=device)

        def products(a: Any = a, b: Any = b) -> None:
            for _ in range(100):
                a @ b
            _wait(torch, device)

        rates[d] = 2 * 2048 * d * d * 100 / seconds(products)
    body = [[str(d), f"{rate / 1e12:.1f}"] for d, rate in rates.items()]
    table("Matrix products, float32", ["(2048, d) x (d, d), d =", "TFLOP/s"], body)
    return rates


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
    parts = PARTS if device.startswith("cuda") and not small else PARTS[:-1]
    if "--parts" in options:
        parts = tuple(options[options.index("--parts") + 1].split(","))
    if "learning" in parts:
        learning(torch, device, small, product_rates(torch, device, small))
    if "finding" in parts:
        finding(device, small)
    if "accuracy" in parts:
        accuracy(device, small)
    if "million" in parts:
        million(torch, device)
