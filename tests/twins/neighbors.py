"""Neighbors under local metrics, by all values: the candidate's class chooses the matrix (theory 0, 6.3)."""

import numpy as np


def local_values(measure, metrics, Q, X, y):
    """(n_queries, n_items): (q-x)' M_y(x) (q-x), or q' M_y(x) x for similarities; `metrics[label]` is M."""
    values = np.empty((len(Q), len(X)))
    for s, q in enumerate(Q):
        for t, x in enumerate(X):
            left, right = (q - x, q - x) if measure == "distance" else (q, x)
            values[s, t] = left @ metrics[y[t]] @ right
    return values


def local_neighbors(measure, metrics, Q, X, y, k):
    """(values, rows) of the k nearest items of each query, nearest first; equal values: lower row first."""
    values = local_values(measure, metrics, Q, X, y)
    order = np.argsort(values if measure == "distance" else -values, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(values, order, axis=1), order


def local_predict(measure, metrics, Q, X, y, k):
    """Majority vote; a tie goes to the class of the nearest among the tied."""
    predicted = []
    for rows in local_neighbors(measure, metrics, Q, X, y, k)[1]:
        votes = [y[r] for r in rows]
        most = max(votes.count(label) for label in votes)
        predicted.append(next(label for label in votes if votes.count(label) == most))
    return np.array(predicted)


def local_shares(measure, metrics, Q, X, y, k, weights):
    """Shares of the sorted labels in the vote of each query: "soft", "uniform" or "distance" (theory 23).

    `metrics[None]` is the shared part, under which a query is similar to itself.
    """
    labels, shares = sorted(set(y)), []
    for q, values, rows in zip(Q, *local_neighbors(measure, metrics, Q, X, y, k), strict=True):
        votes, gaps = dict.fromkeys(labels, 0.0), values
        if measure == "similarity":
            gaps = max(q @ metrics[None] @ q, values[0]) - values
        for gap, row in zip(gaps, rows, strict=True):
            if weights == "uniform":
                weight = 1.0
            elif weights == "soft":
                weight = np.exp(-gap / (0.25 * gaps[-1])) if gaps[-1] else 1.0
            else:
                weight = 1.0 / np.sqrt(gap)
            votes[y[row]] += weight
        shares.append([votes[label] / sum(votes.values()) for label in labels])
    return np.array(shares)


def best_count(measure, metrics, X, y, weights, counts):
    """The number of neighbors, of these, by which rows have the smallest mean square of their rival's part, row by row.

    Parts are those in the votes for two: the own label and the largest other. The first number unless it is behind by
    more than a standard error; none is larger than what the others have of a label in the mean.
    """
    scores, labels = [], sorted(set(y))
    counts = [k for k in counts if k <= max((len(y) - 1) / len(labels), counts[0])]
    for k in counts:
        parts = []
        for i in range(len(X)):
            others = np.arange(len(X)) != i
            rest = [label for j, label in enumerate(y) if j != i]
            shares = dict.fromkeys(labels, 0.0)
            found = local_shares(measure, metrics, X[i : i + 1], X[others], rest, k, weights)[0]
            shares.update(zip(sorted(set(rest)), found, strict=True))
            own, rival = shares.pop(y[i]), max(shares.values())
            parts.append((rival / (own + rival)) ** 2)
        scores.append(-np.array(parts))
    best = max(range(len(counts)), key=lambda j: scores[j].mean())
    gains = scores[best] - scores[0]
    return counts[best] if gains.mean() > np.sqrt(np.mean((gains - gains.mean()) ** 2) / len(X)) else counts[0]


def mixed_shares(tables, points, codes, truth, own=None, k=10):
    """Share of the true class in the votes of each query, (n_points, n_queries), all mixtures sorted in full.

    own : of similarities, the values of the queries with themselves under start and shared metric.
    """
    shares = np.empty((len(points), len(truth)))
    for p, (s, t) in enumerate(points):
        for q, label in enumerate(truth):
            mixed = (1 - s) * tables[0][q] + (s - t) * tables[1][q] + t * tables[2][q]
            near = np.argsort(mixed, kind="stable")[:k]
            lacks = mixed[near]
            if own is not None:
                lacks = lacks - min(lacks[0], (1 - s) * own[0][q] + s * own[1][q])
            weights = np.exp(-lacks / (0.25 * lacks[-1]))
            shares[p, q] = weights[codes[near] == label].sum() / weights.sum()
    return shares


def coded_values(codes, scales, vector, constants):
    """|x|^2 - 2 <x, q> up to units: constants less twice the products of rows of scaled whole numbers and a vector."""
    return constants - 2.0 * scales * (codes.astype(np.float64) @ vector)
