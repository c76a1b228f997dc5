"""Slow, obvious NumPy twins of the fast code; the section of the spec stands beside each formula.

Everything here is sequential and dense. `run` builds every matrix it talks about; `careful_run` is the same
algorithm written as fast as one-triplet-at-a-time NumPy goes, and is what the benchmarks compare with.
A class code of -1 means "class-free": that candidate has no local part, only the shared matrix U sees it.
"""

from typing import NamedTuple

import numpy as np

STEP_DEFAULTS = {"smooth": {"gamma": 0.5}, "ramp": {"level": 2.0}, "rescaled": {"eta": 0.5, "beta": None}}


class Run(NamedTuple):
    U: np.ndarray  # (d, d), the shared matrix
    L: np.ndarray  # (n_classes, d, d), one matrix a class
    tau: np.ndarray  # (n_triplets,), the step sizes
    e: np.ndarray  # (n_triplets,), margin - z before each step; the hinge loss is max(0, e)


# --- step rules (sec. 1): e = margin - z, so that l = max(0, e) and, for margin 1, z = 1 - e ----------


def _logistic(e, N, C):
    """Root of tau = C / (1 + exp(z + tau N)) in (0, C), bisected; z = 1 - e: a margin m shifts z by m - 1."""
    low, high = 0.0, C
    for _ in range(200):
        middle = 0.5 * (low + high)
        exponent = min(1.0 - e + middle * N, 700.0)  # exp(700) is still finite
        if middle < C / (1.0 + np.exp(exponent)):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def step_size(step, e, N, C, params=None):
    """tau = rule(e, N, C), the table of sec. 1. No step when N = 0, C = 0, or (all but logistic) l <= 0."""
    p = {**STEP_DEFAULTS.get(step, {}), **(params or {})}
    if N == 0.0 or C == 0.0:
        return 0.0
    if step == "logistic":
        return _logistic(e, N, C)  # never passive
    if e <= 0.0:
        return 0.0
    if step == "pa":
        return e / N
    if step == "pa1":
        return min(C, e / N)
    if step == "pa2":
        return e / (N + 1.0 / (2.0 * C))
    if step == "smooth":
        return min(C, e / (N + p["gamma"] / C))
    if step == "ramp":
        return min(C, e / N) if e < p["level"] else 0.0
    if step == "rescaled":
        beta = 1.0 / (1.0 - np.exp(-p["eta"])) if p["beta"] is None else p["beta"]
        return min(C * beta * p["eta"] * np.exp(-p["eta"] * e), e / N)
    raise ValueError(step)


# --- the literal sequential learner (sec. 0, 6.1, 7) --------------------------------------------------


def gradient(measure, p, pos, neg, i, j, lam, mu):
    """Psi of sec. 0: its matrix at U, and {c: its matrix at L_c}; the local entries add when i = j."""
    if measure == "distance":
        sign, plus, minus = +1.0, np.outer(p - pos, p - pos), np.outer(p - neg, p - neg)  # aa', bb'
    else:
        sign, plus, minus = -1.0, np.outer(p, pos), np.outer(p, neg)  # p p+', p p-'
    local = {}
    for c, part in ((i, plus), (j, -minus)):
        if c >= 0:
            local[c] = local.get(c, 0.0) + sign * mu * part
    return sign * lam * (plus - minus), local


def project(M):
    """P_+: the nearest positive semi-definite matrix, by a full eigendecomposition."""
    values, vectors = np.linalg.eigh(0.5 * (M + M.T))
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def read_out(U, L):
    """psd='end': the projected copies of U and of each L_c (Algorithm 1); the state itself stays as it is."""
    return project(U), np.array([project(M) for M in L]).reshape(L.shape)


def exact_step_size(U, L, shared, local, C, margin):
    """sec. 6.2: the root in [0, C] of g(tau) = margin + <P_+(Theta - tau Psi), Psi>, never increasing."""

    def g(tau):
        value = margin + np.sum(project(U - tau * shared) * shared)
        return value + sum(np.sum(project(L[c] - tau * part) * part) for c, part in local.items())

    if g(0.0) <= 0.0:
        return 0.0
    if g(C) >= 0.0:
        return C
    low, high = 0.0, C
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if g(middle) > 0.0 else (low, middle)
    return 0.5 * (low + high)


def step_caps(C, weights, n_triplets):
    """C of every triplet: w_t C (sec. 1); a weight of 0 takes no step even where C is infinite."""
    return [C] * n_triplets if weights is None else [C * float(w) if w else 0.0 for w in weights]


def start(d, n_classes, U0=None, dtype=float):
    """U = L_c = I, or the given start for all of them (so that M_c = U0 when lam + mu = 1)."""
    U = np.eye(d, dtype=dtype) if U0 is None else np.array(U0, dtype=dtype)
    return U, np.repeat(U[None], n_classes, axis=0)


def run(measure, X, triplets, classes, lam, mu, C, step="pa1", step_params=None, margin=1.0, weights=None,
        U0=None, *, n_classes=None, psd="never"):  # fmt: skip
    """The iterates after `triplets`, in order. `classes`: (n, 2), of the positive and of the negative.

    psd: 'never' (also what 'end' learns), an int n (project all after every n-th triplet), 'step' or 'exact'.
    """
    X, classes = np.asarray(X, dtype=float), np.asarray(classes)
    n_classes = int(classes.max(initial=-1)) + 1 if n_classes is None else n_classes
    U, L = start(X.shape[1], n_classes, U0)
    taus, es = np.zeros(len(triplets)), np.zeros(len(triplets))
    caps = step_caps(C, weights, len(triplets))
    for t, ((row, pos, neg), (i, j), Ct) in enumerate(zip(triplets, classes, caps, strict=True)):
        shared, local = gradient(measure, X[row], X[pos], X[neg], i, j, lam, mu)
        e = margin + np.sum(U * shared) + sum(np.sum(L[c] * part) for c, part in local.items())  # sec. 6.1, 7
        N = np.sum(shared**2) + sum(np.sum(part**2) for part in local.values())  # ||Psi||^2, literally
        if psd == "exact":
            tau = exact_step_size(U, L, shared, local, Ct, margin) if N and Ct else 0.0
        else:
            tau = step_size(step, e, N, Ct, step_params)
        if tau:
            U = U - tau * shared  # Theta - tau Psi
            for c, part in local.items():
                L[c] = L[c] - tau * part
        if (psd in ("step", "exact") and tau) or (isinstance(psd, int) and (t + 1) % psd == 0):
            U, L = read_out(U, L)  # classes that were not touched are p.s.d. already
        taus[t], es[t] = tau, e
    return Run(U, L, taus, es)


# --- the careful sequential learner: same iterates, O(d) norms, quadratic forms, low-rank updates in pl


def stable_norms(measure, P, Q, R, i, j, lam, mu):
    """N of every triplet in float64, without cancellation, O(d) each (sec. 6.1, 7; degenerate: sec. 13)."""
    P, Q, R = (np.asarray(A, dtype=float) for A in (P, Q, R))
    gap = np.einsum("td,td->t", Q - R, Q - R)  # ||p+ - p-||^2 = ||a - b||^2, from the points
    if measure == "distance":
        A, B = P - Q, P - R
        aa, bb = np.einsum("td,td->t", A, A), np.einsum("td,td->t", B, B)
        both = 0.5 * (gap * np.einsum("td,td->t", A + B, A + B) + (aa - bb) ** 2)  # N_d
        plus, minus = aa**2, bb**2
    else:
        pp = np.einsum("td,td->t", P, P)
        both = pp * gap
        plus, minus = pp * np.einsum("td,td->t", Q, Q), pp * np.einsum("td,td->t", R, R)
    apart = np.where(i >= 0, plus, 0.0) + np.where(j >= 0, minus, 0.0)
    return lam**2 * both + mu**2 * np.where((i == j) & (i >= 0), both, apart)


def careful_run(measure, X, triplets, classes, lam, mu, C, step="pa1", step_params=None, margin=1.0,
                weights=None, U0=None, *, n_classes=None, chunk=2048):  # fmt: skip
    """`run` without p.s.d. policy, as fast as sequential NumPy honestly goes; keeps the dtype of X."""
    X, triplets, classes = np.asarray(X), np.asarray(triplets), np.asarray(classes)
    n_classes = int(classes.max(initial=-1)) + 1 if n_classes is None else n_classes
    U, L = start(X.shape[1], n_classes, U0, X.dtype)
    caps = step_caps(C, weights, len(triplets))
    learn = _careful_distance if measure == "distance" else _careful_similarity
    taus, es = [], []
    for begin in range(0, len(triplets), chunk):  # differences and norms of a chunk of triplets at once
        part = slice(begin, begin + chunk)
        i, j = classes[part].T
        P, Q, R = (X[rows] for rows in triplets[part].T)
        N = stable_norms(measure, P, Q, R, i, j, lam, mu).tolist()
        learn(U, list(L), P, Q, R, i.tolist(), j.tolist(), N, caps[part], lam, mu, margin, step, step_params,
              taus, es)  # fmt: skip
    return Run(U, L, np.array(taus), np.array(es))


def _careful_distance(U, L, P, Q, R, i, j, N, Cs, lam, mu, margin, step, params, taus, es):
    V = np.stack([P - Q, P - R], axis=1)  # rows a and b of each triplet
    update = np.empty_like(U)
    signs = np.array([[1.0], [-1.0]], dtype=U.dtype)
    for ab, ci, cj, n, c in zip(V, i, j, N, Cs, strict=True):
        a, b = ab
        e = margin
        if lam:
            e += lam * (float(a.dot(U.dot(a))) - float(b.dot(U.dot(b))))
        if mu and ci >= 0:
            e += mu * float(a.dot(L[ci].dot(a)))
        if mu and cj >= 0:
            e -= mu * float(b.dot(L[cj].dot(b)))
        tau = step_size(step, e, n, c, params)
        taus.append(tau)
        es.append(e)
        if not tau:
            continue
        if lam:  # U -= tau lam (aa' - bb'), one rank-2 product into a kept buffer
            np.dot((ab * (signs * U.dtype.type(-tau * lam))).T, ab, out=update)
            np.add(U, update, out=U)
        if mu and ci >= 0:  # L_i -= tau mu aa'
            np.dot(ab[:1].T * U.dtype.type(-tau * mu), ab[:1], out=update)
            np.add(L[ci], update, out=L[ci])
        if mu and cj >= 0:  # L_j += tau mu bb'
            np.dot(ab[1:].T * U.dtype.type(tau * mu), ab[1:], out=update)
            np.add(L[cj], update, out=L[cj])


def _careful_similarity(U, L, P, Q, R, i, j, N, Cs, lam, mu, margin, step, params, taus, es):
    update = np.empty_like(U)
    for p, q, r, gap, ci, cj, n, c in zip(P, Q, R, Q - R, i, j, N, Cs, strict=True):
        e = margin
        if lam:
            e -= lam * float(p.dot(U.dot(gap)))
        if mu and ci >= 0:
            e -= mu * float(p.dot(L[ci].dot(q)))
        if mu and cj >= 0:
            e += mu * float(p.dot(L[cj].dot(r)))
        tau = step_size(step, e, n, c, params)
        taus.append(tau)
        es.append(e)
        if not tau:
            continue
        left = p[:, None] * U.dtype.type(tau)
        if lam:  # U += tau lam p (p+ - p-)'
            np.dot(left, (gap * U.dtype.type(lam))[None], out=update)
            np.add(U, update, out=U)
        if mu and ci >= 0:  # L_i += tau mu p p+'
            np.dot(left, (q * U.dtype.type(mu))[None], out=update)
            np.add(L[ci], update, out=L[ci])
        if mu and cj >= 0:  # L_j -= tau mu p p-'
            np.dot(left, (r * U.dtype.type(mu))[None], out=update)
            np.subtract(L[cj], update, out=L[cj])


# --- triplets (sec. 12) -------------------------------------------------------------------------------


def squared_distances(A, B):
    return np.array([[np.sum((a - b) ** 2) for b in B] for a in A])


def targets_impostors(X, y, n_targets=3, n_impostors=10, impostor_margin=0.0):
    """All (anchor, target neighbour, impostor): every target with each of its anchor's nearest impostors.

    An impostor of x_i has another label and ||x_i - x_l||^2 <= ||x_i - farthest target||^2 + margin * scale,
    where scale is the mean squared distance over ordered pairs, 2 mean ||x - mean||^2. Nearest first; among
    equals the lower row.
    """
    X, y = np.asarray(X, dtype=float), np.asarray(y)
    D = squared_distances(X, X)
    scale = 2.0 * np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1))
    triplets = []
    for anchor in range(len(X)):
        nearest = np.argsort(D[anchor], kind="stable")
        targets = [r for r in nearest if y[r] == y[anchor] and r != anchor][:n_targets]
        if not targets:
            continue  # a class of one member gives no anchor
        reach = D[anchor, targets[-1]] + impostor_margin * scale
        impostors = [r for r in nearest if y[r] != y[anchor] and D[anchor, r] <= reach][:n_impostors]
        triplets += [(anchor, target, impostor) for target in targets for impostor in impostors]
    return np.array(triplets, dtype=np.intp).reshape(-1, 3)


# --- neighbours under local metrics (sec. 0, 6.3): the candidate's class chooses the matrix -----------


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
