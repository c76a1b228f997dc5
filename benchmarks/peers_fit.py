"""Runs in the environment of the peers (scikit-learn below 1.8, metric-learn, mlpack, prosemble, torch).

``python peers_fit.py SPLIT.npz METHOD RESULT.npz``: reads train and labels (0, 1, ...), for LGMLVQ also test; writes
components (a linear map) or answers (labels of test), CPU seconds without imports, and the package's version. It
imports nothing of paloma, whose dependencies that environment does not have. Exit status 3: a package is not installed.
"""

import importlib
import importlib.metadata
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

MISSING = 3
EPOCHS, PATIENCE = 30, 5  # of the two learners in torch


def lmnn(train: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """metric-learn's; iterations bounded, because its default of 1,000 takes hours on Letters."""
    from metric_learn import LMNN

    return LMNN(n_neighbors=3, max_iter=50, random_state=0).fit(train, labels).components_


def scml(train: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """metric-learn's, with the neighbors of the paper's triplets."""
    from metric_learn import SCML_Supervised

    return SCML_Supervised(k_genuine=3, k_impostor=10, random_state=0).fit(train, labels).components_


def lmnn_mlpack(train: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """mlpack's defaults, but three target neighbors, 20 passes instead of 50, impostors once a pass."""
    import mlpack

    codes, pass_of_batches = labels.astype(np.uint64), max(1, len(train) // 50)
    return mlpack.lmnn(train, labels=codes, k=3, passes=20, update_interval=pass_of_batches, seed=1)["output"]


def nca_sgd(train: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Linear NCA without reduction of dimension, by Adam over batches of anchors, each against all rows.

    Begins as the identity; two rates, see `_descend` for the rest.
    """
    import torch

    def loss(W: Any, X: Any, y: Any, batch: Any) -> Any:
        mapped = X @ W.T
        closeness = -torch.cdist(mapped[batch], mapped).square()
        closeness[torch.arange(len(batch)), batch] = -torch.inf
        share = torch.log_softmax(closeness, dim=1)
        same = y[batch][:, None] == y
        return -torch.logsumexp(share.masked_fill(~same, -torch.inf), dim=1).clamp(min=-50).mean()

    X, y = torch.as_tensor(train, dtype=torch.float32), torch.as_tensor(labels)

    def descend(rate: float) -> tuple[np.ndarray, float]:
        W = torch.nn.Parameter(torch.eye(X.shape[1]))
        return _descend(W, loss, [{"params": [W], "lr": rate}], X, y, 256, unit=False)

    return max((descend(rate) for rate in (2e-3, 1e-2)), key=lambda made: made[1])[0]


def proxy_anchor(train: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Proxy Anchor (Kim et al. 2020; its alpha 32, delta .1, batches of 180, AdamW) with a linear head.

    The head begins as the identity, a proxy at the mean of its class; three rates, see `_descend` for the rest.
    """
    import torch

    normalize = torch.nn.functional.normalize
    X, y = torch.as_tensor(train, dtype=torch.float32), torch.as_tensor(labels)
    means = torch.stack([normalize(X)[y == c].mean(dim=0) for c in range(int(y.max()) + 1)])

    def descend(rate: float) -> tuple[np.ndarray, float]:
        W, proxies = torch.nn.Parameter(torch.eye(X.shape[1])), torch.nn.Parameter(normalize(means))
        groups = [{"params": [W], "lr": rate}, {"params": [proxies], "lr": 10 * rate}]
        return _descend(W, partial(loss, proxies), groups, X, y, 180, unit=True)

    def loss(proxies: Any, W: Any, X: Any, y: Any, batch: Any) -> Any:
        cosine = normalize(X[batch] @ W.T) @ normalize(proxies).T
        same = y[batch][:, None] == torch.arange(len(proxies))
        zero = torch.zeros(1, len(proxies))  # the 1 of log(1 + sum exp)
        near = torch.cat([zero, (-32 * (cosine - 0.1)).masked_fill(~same, -torch.inf)]).logsumexp(dim=0)
        far = torch.cat([zero, (32 * (cosine + 0.1)).masked_fill(same, -torch.inf)]).logsumexp(dim=0)
        return near.sum() / same.any(dim=0).sum() + far.mean()

    return max((descend(rate) for rate in (1e-3, 1e-2, 1e-1)), key=lambda made: made[1])[0]


def _descend(
    W: Any, loss: Callable[..., Any], groups: list[dict[str, Any]], X: Any, y: Any, size: int, unit: bool
) -> tuple[np.ndarray, float]:
    """AdamW; every fifth row is held out. The map of the last epoch that finds most of their classes, and that share.

    The class found is that of the nearest row; under `unit`, mapped rows have length one. Ends after PATIENCE epochs
    without a better one, or EPOCHS. Of several rates the one whose map finds most is taken.
    """
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    held = torch.arange(len(X)) % 5 == 4
    rows, codes = X[~held], y[~held]

    def found() -> float:
        with torch.no_grad():
            a, b = rows @ W.T, X[held] @ W.T
            if unit:
                a, b = torch.nn.functional.normalize(a), torch.nn.functional.normalize(b)
            return float((codes[torch.cdist(b, a).argmin(dim=1)] == y[held]).float().mean())

    optimizer = torch.optim.AdamW(groups, weight_decay=0)
    best, kept, since = found(), W.detach().clone(), 0
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(rows)).split(size):
            optimizer.zero_grad()
            loss(W, rows, codes, batch).backward()
            optimizer.step()
        since += 1
        if (now := found()) >= best:
            best, kept, since = now, W.detach().clone(), 0
        if since == PATIENCE:
            break
    return kept.numpy(), best


def lgmlvq(train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> np.ndarray:
    """prosemble's defaults (one prototype a class) but for batches; rows divided by one number, their deviation."""
    from prosemble.models import LGMLVQ

    unit = train.std()
    model = LGMLVQ(batch_size=256, prototypes_initializer="class_mean", random_seed=0)
    model.fit((train / unit).astype(np.float32), labels.astype(np.int32))
    parts = np.array_split((test / unit).astype(np.float32), -(-len(test) // 256))
    return np.concatenate([np.asarray(model.predict(part)) for part in parts])


# What it learns, the module it needs, the package that the module comes with.
METHODS: dict[str, tuple[Callable[..., np.ndarray], str, str]] = {
    "lmnn": (lmnn, "metric_learn", "metric-learn"),
    "scml": (scml, "metric_learn", "metric-learn"),
    "lmnn-mlpack": (lmnn_mlpack, "mlpack", "mlpack"),
    "nca-sgd": (nca_sgd, "torch._dynamo", "torch"),  # which the first optimizer imports
    "proxy-anchor": (proxy_anchor, "torch._dynamo", "torch"),
    "lgmlvq": (lgmlvq, "prosemble.models", "prosemble"),
}


def main(split: str, method: str, result: str) -> None:
    warnings.simplefilter("ignore")  # of the packages, about their dependencies
    with np.load(split) as file:
        arrays = dict(file)
    arrays["train"] = arrays["train"].astype(np.float64)
    fit, module, package = METHODS[method]
    try:
        importlib.import_module(module)
    except ImportError as error:
        print(f"{error}", file=sys.stderr)
        sys.exit(MISSING)
    begin = time.process_time()
    learned = fit(**arrays)
    seconds = time.process_time() - begin
    made = {"answers" if "test" in arrays else "components": learned}
    np.savez(result, **made, seconds=seconds, version=f"{package} {_version(package)}")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


if __name__ == "__main__":
    main(*sys.argv[1:])
