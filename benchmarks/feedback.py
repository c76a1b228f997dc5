"""Search that learns from feedback, against no feedback and against what vector databases offer.

``python -m benchmarks feedback [--sets ...] [--users ...] [--methods ...] [--statements N] [--seeds N]
[--first-seed N] [--ask]``

Simulated users ask about items, see the first results of each method, and mark them by a relation that no method knows.
A query that is asked again shows results that were not marked yet. Figures at each checkpoint: nDCG@20 and P@10 over
new queries, which were never asked about and are no items; and nDCG@20 over queries that were asked, among the items
that the user has not marked for them. Methods that move one query and forget it have on new queries the figures of no
feedback. Sets come from the folder that PALOMA_DATA names: l2-normalized rows, reduced by PCA.
"""

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

import paloma
from paloma.feedback import FeedbackSearch

from .timing import console, table, verdict

SETS = ("pets", "cub200", "banking77", "caltech101", "cifar10", "coil20")
CHECKPOINTS = (0, 5, 20, 100, 500, 2000)
N_ITEMS, N_NEW, N_ASKED, N_FEATURES, SCREEN = 2500, 300, 300, 128, 10


@dataclass
class World:
    """Items, new queries, the items that are asked about, and the classes behind all of them."""

    X: np.ndarray
    y: np.ndarray
    new: np.ndarray
    y_new: np.ndarray
    asked: np.ndarray
    others: tuple[np.ndarray, np.ndarray] | None = None

    @classmethod
    def of(cls, name: str, seed: int) -> "World":
        if name == "digits":
            X, y = load_digits(return_X_y=True)
        else:
            data = paloma.datasets.load(name)
            X, y = np.asarray(data.data), np.asarray(data.target)
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(y))[: N_ITEMS + N_NEW]
        X, y = normalize(X[rows].astype(np.float32)), np.unique(y, return_inverse=True)[1][rows]
        n = len(y) - N_NEW
        pca = PCA(min(N_FEATURES, X.shape[1]), svd_solver="covariance_eigh").fit(X[:n])
        X = pca.transform(X).astype(np.float64)
        return cls(X[:n], y[:n], X[n:], y[n:], rng.choice(n, N_ASKED, replace=False))

    def double(self, seed: int) -> None:
        """Each item beside another one: the features of both, so that two users can look for different things."""
        rng = np.random.default_rng(2000 + seed)
        order, order_new = rng.permutation(len(self.y)), rng.permutation(len(self.y_new))
        self.others = self.y[order], self.y_new[order_new]
        self.X = np.hstack([self.X[:, :64], self.X[order, :64]])
        self.new = np.hstack([self.new[:, :64], self.new[order_new, :64]])

    def halves(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """A hidden attribute: a random half of the classes, against the other one."""
        n = int(max(self.y.max(), self.y_new.max())) + 1
        half = np.random.default_rng(1000 + seed).permutation(n) % 2
        return half[self.y], half[self.y_new]


@dataclass
class User:
    """Marks the first screen by a hidden relation.

    noise : share of wrong clicks. lazy : marks the first two relevant results and the first irrelevant one alone.
    """

    y: np.ndarray
    y_new: np.ndarray
    noise: float = 0.0
    lazy: bool = False
    name: str | None = None

    def marks(self, query: int, shown: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        relevant = (self.y[shown] == self.y[query]) ^ (rng.random(len(shown)) < self.noise)
        yes, no = shown[relevant], shown[~relevant]
        return (yes[:2], no[:1]) if self.lazy else (yes, no)


def users_of(kind: str, world: World, seed: int) -> list[User]:
    """One user, or two who disagree; "vandal" clicks the opposite of what is true."""
    truth = (world.y, world.y_new)
    if kind in ("two", "two-shared"):
        names = ("anna", "ben") if kind == "two" else (None, None)
        world.double(seed)
        return [User(*truth, name=names[0]), User(*world.others, name=names[1])]
    options: dict[str, dict[str, Any]] = {
        "class": {}, "noise5": {"noise": 0.05}, "noise20": {"noise": 0.2}, "lazy": {"lazy": True},
        "vandal": {"noise": 1.0},
    }  # fmt: skip
    return [User(*world.halves(seed))] if kind == "half" else [User(*truth, **options[kind])]


USERS = ("class", "half", "noise5", "noise20", "lazy", "vandal", "two", "two-shared")


# -- methods: values of all items for a query, small is near ----------------------------------------------------------


@dataclass
class NoFeedback:
    """Euclidean distances."""

    world: World
    marks: dict[Any, tuple[list[int], list[int]]] = field(default_factory=dict)

    def tell(self, query: int, yes: np.ndarray, no: np.ndarray, user: str | None) -> None:
        both = self.marks.setdefault((query, user), ([], []))
        both[0].extend(yes.tolist())
        both[1].extend(no.tolist())

    def asked(self, query: int, user: str | None) -> np.ndarray:
        """Values for a query that may have marks."""
        return self.new(self.world.X[query][None], user)[0]

    def new(self, Q: np.ndarray, user: str | None) -> np.ndarray:
        """Values for queries without marks."""
        X = self.world.X
        return (X * X).sum(axis=1) - 2.0 * Q @ X.T


class MovesQuery(NoFeedback):
    """What marks of this very query say about all items; without any, no feedback."""

    def asked(self, query: int, user: str | None) -> np.ndarray:
        yes, no = self.marks.get((query, user), ([], []))
        if not yes and not no:
            return super().asked(query, user)
        return self.moved(self.world.X[query], self.world.X[[query, *yes]], self.world.X[no])

    def moved(self, q: np.ndarray, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class Rocchio(MovesQuery):
    """q + .75 mean(relevant) - .15 mean(irrelevant)."""

    def moved(self, q, yes, no):
        point = q + 0.75 * yes.mean(axis=0) - (0.15 * no.mean(axis=0) if len(no) else 0.0)
        return self.new(point[None] / 1.6, None)[0]


class AverageVector(MovesQuery):
    """Qdrant's average_vector: mean(positive) + mean(positive) - mean(negative)."""

    def moved(self, q, yes, no):
        mean = yes.mean(axis=0)
        return self.new((2.0 * mean - no.mean(axis=0) if len(no) else mean)[None], None)[0]


class BestScore(MovesQuery):
    """Qdrant's best_score: the best positive similarity; minus the square of the best negative one if it is larger."""

    def moved(self, q, yes, no):
        X = normalize(self.world.X)
        best = (X @ normalize(yes).T).max(axis=1)
        worst = (X @ normalize(no).T).max(axis=1) if len(no) else np.full(len(X), -np.inf)
        return -np.where(best > worst, best, -(worst**2))


class ContextPairs(MovesQuery):
    """Qdrant's discovery: how many pairs (positive, negative) have an item on their positive side, then similarity."""

    def moved(self, q, yes, no):
        X = normalize(self.world.X)
        target = 1.0 / (1.0 + np.exp(-X @ normalize(q[None])[0]))
        if not len(no):
            return -target
        sides = np.sign((X @ normalize(yes).T)[:, :, None] - (X @ normalize(no).T)[:, None, :])
        return -(sides.sum(axis=(1, 2)) + target)


class SVM(MovesQuery):
    """A linear SVM between relevant and irrelevant items; random items are irrelevant if none was marked."""

    def moved(self, q, yes, no):
        if not len(no):
            no = self.world.X[np.random.default_rng(0).choice(len(self.world.X), 20, replace=False)]
        y = np.r_[np.ones(len(yes)), np.zeros(len(no))]
        model = LinearSVC(class_weight="balanced").fit(np.concatenate([yes, no]), y)
        return -model.decision_function(self.world.X)


class Learned(NoFeedback):
    """FeedbackSearch: the metric is kept for all queries."""

    def __init__(self, world: World, **options: Any) -> None:
        super().__init__(world)
        self.search = FeedbackSearch(world.X, **options)

    def tell(self, query, yes, no, user):
        super().tell(query, yes, no, user)
        if len(yes) or len(no):
            self.search.mark(query, yes.tolist(), no.tolist(), user=user)

    def new(self, Q, user):
        X, metric = self.world.X, self.search.metric_matrix(user)
        images = X @ metric
        return (images * X).sum(axis=1) - 2.0 * Q @ images.T


class WithExamples(Learned):
    """The same, and a query that has marks is moved by them."""

    def asked(self, query, user):
        yes, no = self.marks.get((query, user), ([], []))
        values = np.empty(len(self.world.X))
        distances, items = self.search.search(query, len(values) - 1, user=user, like=yes, unlike=no)
        values[items], values[query] = distances, 0.0
        return values


class Unguarded(Learned):
    """The same without the guard."""

    def __init__(self, world: World) -> None:
        super().__init__(world, guard=False)


class Head(NoFeedback):
    """What one would write in torch: a linear head, by a triplet loss over random triplets of all marks."""

    BATCH, STEPS, MARGIN, RATE = 256, 5, 0.2, 1e-3

    def __init__(self, world: World) -> None:
        import torch

        super().__init__(world)
        torch.set_num_threads(1)
        self.torch, self.rng = torch, np.random.default_rng(0)
        self.rows = torch.tensor(world.X, dtype=torch.float32)
        self.head = torch.eye(world.X.shape[1], requires_grad=True)
        self.optimizer = torch.optim.Adam([self.head], lr=self.RATE)
        self.said: list[np.ndarray] = []

    def tell(self, query, yes, no, user):
        super().tell(query, yes, no, user)
        if len(yes) and len(no):
            near, far = (side.ravel() for side in np.meshgrid(yes, no))
            self.said.append(np.stack([np.full(len(near), query), near, far], axis=1))
        for _ in range(self.STEPS if self.said else 0):
            picked = [self.said[k] for k in self.rng.integers(0, len(self.said), self.BATCH)]
            triplets = np.array([each[self.rng.integers(len(each))] for each in picked])
            anchors, near, far = (self.rows[column] @ self.head for column in triplets.T)
            loss = (self.MARGIN + (anchors - near).square().sum(1) - (anchors - far).square().sum(1)).relu().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def new(self, Q, user):
        head = self.head.detach().numpy().astype(np.float64)
        X = self.world.X @ head
        return (X * X).sum(axis=1) - 2.0 * (Q @ head) @ X.T


METHODS = {
    "none": NoFeedback, "rocchio": Rocchio, "average": AverageVector, "best": BestScore, "context": ContextPairs,
    "svm": SVM, "head": Head, "paloma": Learned, "examples": WithExamples,
    "unguarded": Unguarded,
}  # fmt: skip
# The head needs torch, of the extra gpu.
DEFAULT = [name for name in METHODS if name != "head" or find_spec("torch")]


# -- figures ----------------------------------------------------------------------------------------------------------


def figures(values: np.ndarray, relevant: np.ndarray) -> tuple[float, float]:
    """nDCG@20 and P@10 of rows of values, of items that are relevant; rows without any do not count."""
    order = np.argsort(values, axis=1, kind="stable")[:, :20]
    found = np.take_along_axis(relevant, order, 1)
    discount = 1.0 / np.log2(np.arange(2, 22))
    total = relevant.sum(axis=1)
    ideal = np.cumsum(discount)[np.clip(total, 1, 20) - 1]
    some = total > 0
    return float(((found * discount).sum(axis=1) / ideal)[some].mean()), float(found[some, :10].mean())


def measured(method: NoFeedback, users: Sequence[User], asked: Sequence[tuple[int, int]]) -> np.ndarray:
    """nDCG@20 and P@10 of new queries, nDCG@20 of queries asked before; means over users."""
    found = [figures(method.new(method.world.new, u.name), u.y_new[:, None] == u.y) for u in users]
    values, relevant = [], []
    for query, number in dict.fromkeys(asked[-100:]):
        user = users[number]
        row, same = method.asked(query, user.name).copy(), user.y == user.y[query]
        gone = [query, *(item for side in method.marks[query, user.name] for item in side)]
        row[gone], same[gone] = np.inf, False
        values.append(row)
        relevant.append(same)
    again = figures(np.array(values), np.array(relevant))[0] if values else np.nan
    return np.array([*np.mean(found, axis=0), again])


def run(world: World, users: Sequence[User], method: NoFeedback, n_statements: int, seed: int) -> dict[int, np.ndarray]:
    """Figures at each checkpoint."""
    rng, out, asked = np.random.default_rng(seed), {}, list[tuple[int, int]]()
    for t in range(n_statements + 1):
        if t in CHECKPOINTS or t == n_statements:
            out[t] = measured(method, users, asked)
        if t == n_statements:
            return out
        number = t % len(users)
        user, query = users[number], int(rng.choice(world.asked))
        values = method.asked(query, user.name).copy()
        values[[query, *(i for side in method.marks.get((query, user.name), ((), ())) for i in side)]] = np.inf
        shown = np.argsort(values, kind="stable")[:SCREEN]
        method.tell(query, *user.marks(query, shown, rng), user.name)
        asked.append((query, number))
    return out


def main(arguments: Sequence[str] = ()) -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks feedback")
    parser.add_argument("--sets", default=",".join(SETS) if os.environ.get("PALOMA_DATA") else "digits")
    parser.add_argument("--users", default="class", help=f"comma-separated, of {', '.join(USERS)}")
    parser.add_argument("--methods", default=",".join(DEFAULT))
    parser.add_argument("--statements", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0, help="others than those that a rule was chosen on")
    parser.add_argument("--ask", action="store_true", help="compare suggested questions with random ones instead")
    options = parser.parse_args(arguments)
    with threadpool_limits(1):
        if options.ask:
            asking(options)
            return
        for kind in options.users.split(","):
            study(kind, options)


def asked_by(world: World, user: User, n_statements: int, seed: int, suggested: bool) -> np.ndarray:
    """nDCG@20 of new queries after each ten answers to suggested questions, or to random ones."""
    rng, method, out = np.random.default_rng(seed), Learned(world), []
    order = rng.permutation(len(world.y))
    for t in range(n_statements + 1):
        if t % 10 == 0:
            out.append(figures(method.new(world.new, None), user.y_new[:, None] == user.y)[0])
        if suggested:
            [question] = method.search.suggest(1, k=SCREEN)
            query, shown = int(question.query), np.array(question.show)
        else:
            query = int(order[t])
            shown = np.array(method.search.search(query, SCREEN)[1])
        method.tell(query, *user.marks(query, shown, rng), None)
    return np.array(out)


def asking(options: argparse.Namespace) -> None:
    """One table: how many answers to suggested questions teach as much as `options.statements` to random ones."""
    body, shares = [], []
    for name in options.sets.split(","):
        curves = []
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            world = World.of(name, seed)
            [user] = users_of("class", world, seed)
            curves.append([asked_by(world, user, options.statements, seed, suggested) for suggested in (False, True)])
        random, suggested = np.mean(curves, axis=0)
        enough = np.flatnonzero(suggested >= random[-1])
        needed = 10 * int(enough[0]) if len(enough) else None
        shares.append(np.inf if needed is None else needed / options.statements)
        cells = [f"{curve[0]:.4f} -> {curve[-1]:.4f}" for curve in (random, suggested)]
        body.append([name, *cells, f"{needed or 'more'}", verdict(shares[-1], 0.6, at_least=False)])
        console.print("  ".join(body[-1]))
    table(
        f"nDCG@20 of new queries after {options.statements} answers, mean of {options.seeds} seeds",
        ["set", "random questions", "suggested", "answers needed", "share asked for"],
        body,
    )


def study(kind: str, options: argparse.Namespace) -> None:
    """One table: a kind of user, all sets and methods."""
    body, points = [], [p for p in CHECKPOINTS if p < options.statements] + [options.statements]
    for name in options.sets.split(","):
        for label in options.methods.split(","):
            begin, found = time.perf_counter(), []
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                world = World.of(name, seed)
                users = users_of(kind, world, seed)
                found.append(run(world, users, METHODS[label](world), options.statements, seed))
            mean = {point: np.mean([each[point] for each in found], axis=0) for point in points}
            cells = [f"{mean[p][0]:.4f} {mean[p][1]:.3f} {mean[p][2]:.3f}" for p in points]
            body.append([name, label, *cells, f"{time.perf_counter() - begin:.0f}"])
            console.print("  ".join([kind, *body[-1]]))
    table(
        f"User: {kind}. New queries nDCG@20, P@10, asked queries nDCG@20 (residual); {options.seeds} seeds",
        ["set", "method", *(f"after {p}" for p in points), "s"],
        body,
    )
