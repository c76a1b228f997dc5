"""Few triplets on wide matrices, in one pass over each matrix: what a single statement teaches."""

import numpy as np

from .dense import mirror_upper
from .groups import Out, Pairs, Triplets
from .jit import compiled
from .norms import distance_norms
from .sweep import sweep


@compiled
def learn_few(theta, root, differences, triplets, kernel, rule):
    """U and L after triplets, of which each asks for one difference to be shorter than another; how many moved them.

    theta : U, and L of whoever says all of this; empty if nobody does, and U alone moves. Neither is changed.

    The steps are those of an exact block (theory 10): values and Gram matrix of the rows, a sweep, and one update.
    """
    shared, own = theta
    rows, named = _mapped(differences, root), own.shape[0] > 0
    members, margins, C, _ = triplets
    anchored = np.zeros((members.shape[0], 3), np.int64)
    anchored[:, 1:] = members + 1
    members, n = anchored[:, 1:], rows.shape[0]
    gram = _gram(rows)
    pairs = Pairs(gram, gram, np.full(n, 0 if named else -1, np.int32), _values(shared, own, rows, kernel))
    taken, weight = np.empty(members.shape[0]), np.zeros(n)
    told = Triplets(members, margins, C, distance_norms(rows, anchored, 1.0))
    _, updates = sweep(told, pairs, kernel, 1.0, rule, Out(taken, taken, weight), None)
    if updates:
        shared = _moved(shared, rows, kernel.lam * weight)
        own = _moved(own, rows, kernel.mu * weight) if named else own
    return shared, own, updates


@compiled
def _mapped(differences, root):
    """Differences times `root`, below a row of zeros: the anchor that all of them are from."""
    rows = np.zeros((differences.shape[0] + 1, root.shape[1]), root.dtype)
    for i in range(root.shape[0]):
        for r in range(differences.shape[0]):
            for j in range(root.shape[1]):
                rows[r + 1, j] += differences[r, i] * root[i, j]
    return rows


@compiled
def _values(shared, own, rows, kernel):
    """v^T (lam U + mu L) v of each row."""
    d, values = rows.shape[1], np.zeros(rows.shape[0])
    metric, lam, mu = np.empty(d, rows.dtype), np.float32(kernel.lam), np.float32(kernel.mu)
    for i in range(d):
        for j in range(d):
            metric[j] = lam * shared[i, j]
        if own.shape[0]:
            for j in range(d):
                metric[j] += mu * own[i, j]
        for r in range(rows.shape[0]):
            total = np.float32(0.0)
            for j in range(d):
                total += metric[j] * rows[r, j]
            values[r] += np.float64(total) * np.float64(rows[r, i])
    return values


@compiled
def _gram(rows):
    out = np.empty((rows.shape[0], rows.shape[0]))
    for r in range(rows.shape[0]):
        for s in range(r + 1):
            total = 0.0
            for j in range(rows.shape[1]):
                total += np.float64(rows[r, j]) * np.float64(rows[s, j])
            out[r, s] = out[s, r] = total
    return out


@compiled
def _moved(matrix, rows, weight):
    """matrix - sum_r weight_r v_r v_r^T, symmetric."""
    out = matrix.copy()
    for i in range(matrix.shape[0]):
        for r in range(rows.shape[0]):
            share = np.float32(weight[r] * rows[r, i])
            if share != 0.0:
                for j in range(i, matrix.shape[0]):
                    out[i, j] -= share * rows[r, j]
    mirror_upper(out)
    return out
