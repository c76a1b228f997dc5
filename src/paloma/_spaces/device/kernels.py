"""The blocked algorithm in Triton: grouped products under M_c = lam U + mu L_c, and the sweep in panels (theory 10).

Imported when first used, on a GPU. Every program writes its own numbers and sums them in a fixed order, so that the
same input gives the same bits. Products are in full float32 ("ieee"), sums over them in float64. Numbers that must
keep float64 come in the tensor `constants`, because Triton takes a Python float as float32: lam^2, mu^2, the constant
of the step rule, and the factor of the rows.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize_on_alignment=["anchors", "candidates"])
def gather_rows(X, anchors, candidates, out, d, constants, DIFFERENCE: tl.constexpr, WIDTH: tl.constexpr):
    """Rows (x[anchor] - x[candidate]) * factor, or x[anchor] * factor."""
    r = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = columns < d
    rows = tl.load(X + tl.load(anchors + r) * d + columns, mask=inside)
    if DIFFERENCE:
        rows -= tl.load(X + tl.load(candidates + r) * d + columns, mask=inside)
    tl.store(out + r * d + columns, rows * tl.load(constants + 3).to(rows.dtype), mask=inside)


@triton.jit
def squared_norms(X, triplets, slots, out, d, constants, DISTANCE: tl.constexpr, WIDTH: tl.constexpr):
    """N of each triplet from its points, in float64 (theory 6.1, 7): exactly 0 for degenerate ones."""
    t = tl.program_id(0).to(tl.int64)
    p, q, n = tl.load(triplets + 3 * t), tl.load(triplets + 3 * t + 1), tl.load(triplets + 3 * t + 2)
    i, j = tl.load(slots + q), tl.load(slots + n)
    first = tl.zeros([WIDTH], tl.float64)
    second = tl.zeros([WIDTH], tl.float64)
    third = tl.zeros([WIDTH], tl.float64)
    other = tl.zeros([WIDTH], tl.float64)
    for start in range(0, d, WIDTH):
        columns = start + tl.arange(0, WIDTH)
        inside = columns < d
        x = tl.load(X + p * d + columns, mask=inside, other=0.0).to(tl.float64)
        y = tl.load(X + q * d + columns, mask=inside, other=0.0).to(tl.float64)
        z = tl.load(X + n * d + columns, mask=inside, other=0.0).to(tl.float64)
        other += (z - y) * (z - y)
        if DISTANCE:
            a, b = x - y, x - z
            first += a * a
            second += b * b
            third += (a + b) * (a + b)
        else:
            first += y * y
            second += z * z
            third += x * x
    positive, negative, third_sum, apart = tl.sum(first), tl.sum(second), tl.sum(third), tl.sum(other)
    if DISTANCE:
        both = 0.5 * (apart * third_sum + (positive - negative) * (positive - negative))
        positive *= positive
        negative *= negative
    else:
        both = third_sum * apart
        positive *= third_sum
        negative *= third_sum
    lam2, mu2, factor = tl.load(constants), tl.load(constants + 1), tl.load(constants + 3)
    norm = lam2 * both
    if i == j:
        norm += tl.where(i >= 0, mu2 * both, 0.0)
    else:
        norm += tl.where(i >= 0, mu2 * positive, 0.0) + tl.where(j >= 0, mu2 * negative, 0.0)
    tl.store(out + t, factor * factor * factor * factor * norm)


@triton.jit(do_not_specialize=["n_slots"])
def form(shared, stack, out, corners, d, n_slots, lam, mu, SIZE: tl.constexpr):
    """One tile of M_c = lam U + mu L_c; of lam U for the slot after the last."""
    at, slot = tl.program_id(0), tl.program_id(1).to(tl.int64)
    m = tl.load(corners + 2 * at) + tl.arange(0, SIZE)
    n = tl.load(corners + 2 * at + 1) + tl.arange(0, SIZE)
    inside, here = (m < d)[:, None] & (n < d)[None, :], m[:, None] * d + n[None, :]
    value = lam * tl.load(shared + here, mask=inside)
    value += mu * tl.load(stack + slot * d * d + here, mask=inside & (slot < n_slots), other=0.0)
    tl.store(out + slot * d * d + here, value, mask=inside)


@triton.jit(do_not_specialize=["free"], do_not_specialize_on_alignment=["tiles"])
def pair_values(
    left, right, stack, tiles, out, d, n_columns, free, SYMMETRIC: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """<A_slot, l_r r_r^T> of the pairs of one tile (slot, first, count), as one part for each two columns of tiles.

    A program takes the tile columns j and n_columns - 1 - j. Of symmetric matrices it reads tiles on and above the
    diagonal alone, so that all programs do the same work. free : the slot of pairs without one; -1: they get 0.
    """
    tile, j = tl.program_id(0), tl.program_id(1)
    slot = tl.load(tiles + 3 * tile).to(tl.int64)
    slot = tl.where(slot < 0, free, slot)
    first, count = tl.load(tiles + 3 * tile + 1), tl.load(tiles + 3 * tile + 2)
    within, depth = tl.arange(0, BM), tl.arange(0, BK)
    rows, taken = first + within, within < count
    total = tl.zeros([BM], tl.float64)
    if slot >= 0:
        own = stack + slot * d * d
        for half in range(2):
            n = tl.where(half == 0, j, n_columns - 1 - j)
            if (half == 0) | (n != j):
                columns = n * BN + tl.arange(0, BN)
                inside = columns < d
                acc = tl.zeros([BM, BN], tl.float32)
                diagonal = n * BN if SYMMETRIC else 0
                for k in range(0, diagonal, BK):
                    ks = k + depth
                    v = tl.load(left + rows[:, None] * d + ks[None, :], mask=taken[:, None], other=0.0)
                    m = tl.load(own + ks[:, None] * d + columns[None, :], mask=inside[None, :], other=0.0)
                    acc = tl.dot(v, m, acc, input_precision=PRECISION)
                acc *= 2.0
                end = tl.minimum(d, (n + 1) * BN) if SYMMETRIC else d
                for k in range(diagonal, end, BK):
                    ks = k + depth
                    deep = ks < d
                    v = tl.load(left + rows[:, None] * d + ks[None, :], mask=taken[:, None] & deep[None, :], other=0.0)
                    m = tl.load(
                        own + ks[:, None] * d + columns[None, :], mask=deep[:, None] & inside[None, :], other=0.0
                    )
                    acc = tl.dot(v, m, acc, input_precision=PRECISION)
                r = tl.load(
                    right + rows[:, None] * d + columns[None, :], mask=taken[:, None] & inside[None, :], other=0.0
                )
                total += tl.sum((acc * r).to(tl.float64), axis=1)
    tl.store(out + rows * tl.num_programs(1) + j, total, mask=taken)


@triton.jit(do_not_specialize=["n_runs", "share"], do_not_specialize_on_alignment=["runs"])
def move(
    scaled, right, stack, parts, runs, corners, d, n_runs, share, factor, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One tile of L_c -= factor sum_r s_r r_r^T for the `share` runs of a group; their sum is the group's part of U.

    scaled : s_r = w_r l_r. corners : (row, column) of each tile that there is, all or those on and above the diagonal.
    """
    at, group = tl.program_id(0), tl.program_id(1)
    m = tl.load(corners + 2 * at) + tl.arange(0, BM)
    n = tl.load(corners + 2 * at + 1) + tl.arange(0, BN)
    high, wide, depth = m < d, n < d, tl.arange(0, BK)
    inside, here = high[:, None] & wide[None, :], m[:, None] * d + n[None, :]
    whole = tl.zeros([BM, BN], tl.float32)
    for run in range(group * share, tl.minimum(n_runs, (group + 1) * share)):
        slot = tl.load(runs + 3 * run).to(tl.int64)
        first, count = tl.load(runs + 3 * run + 1), tl.load(runs + 3 * run + 2)
        own, known = stack + tl.maximum(slot, 0) * d * d + here, inside & (slot >= 0)
        old = tl.load(own, mask=known, other=0.0)
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, count, BK):
            rows, taken = first + k + depth, k + depth < count
            a = tl.load(scaled + rows[:, None] * d + m[None, :], mask=taken[:, None] & high[None, :], other=0.0)
            b = tl.load(right + rows[:, None] * d + n[None, :], mask=taken[:, None] & wide[None, :], other=0.0)
            acc = tl.dot(tl.trans(a), b, acc, input_precision=PRECISION)
        tl.store(own, old - factor * acc, mask=known)
        whole += acc
    tl.store(parts + group.to(tl.int64) * d * d + here, whole, mask=inside)


@triton.jit
def _kernel_value(left, right, i, j, n, c, e, lam2, mu2, mask, SAME: tl.constexpr):
    """T[c, e] <phi_i, phi_j>."""
    x = tl.load(left + i * n + j, mask=mask, other=0.0).to(tl.float64)
    y = x
    if not SAME:
        y = tl.load(right + i * n + j, mask=mask, other=0.0).to(tl.float64)
    return tl.where((c == e) & (c >= 0), lam2 + mu2, lam2) * x * y


@triton.jit(do_not_specialize=["n_pairs", "n"], do_not_specialize_on_alignment=["members", "slots"])
def panel_products(
    left, right, members, slots, out, n_pairs, n, constants, SAME: tl.constexpr, PANEL: tl.constexpr, TILE: tl.constexpr
):
    """H_kb = <Psi_k, Psi_b> of triplets k < b of one panel."""
    panel, row, column = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    lam2, mu2 = tl.load(constants), tl.load(constants + 1)
    if column >= row:
        k = panel * PANEL + row * TILE + tl.arange(0, TILE)
        b = panel * PANEL + column * TILE + tl.arange(0, TILE)
        some, both = k < n, (k < n)[:, None] & (b < n)[None, :]
        kp = tl.load(members + 2 * k, mask=some, other=0).to(tl.int64)
        km = tl.load(members + 2 * k + 1, mask=some, other=0).to(tl.int64)
        bp = tl.load(members + 2 * b, mask=b < n, other=0).to(tl.int64)
        bm = tl.load(members + 2 * b + 1, mask=b < n, other=0).to(tl.int64)
        ckp, ckm = tl.load(slots + kp)[:, None], tl.load(slots + km)[:, None]
        cbp, cbm = tl.load(slots + bp)[None, :], tl.load(slots + bm)[None, :]
        kp, km, bp, bm = kp[:, None], km[:, None], bp[None, :], bm[None, :]
        h = _kernel_value(left, right, kp, bp, n_pairs, ckp, cbp, lam2, mu2, both, SAME)
        h -= _kernel_value(left, right, kp, bm, n_pairs, ckp, cbm, lam2, mu2, both, SAME)
        h -= _kernel_value(left, right, km, bp, n_pairs, ckm, cbp, lam2, mu2, both, SAME)
        h += _kernel_value(left, right, km, bm, n_pairs, ckm, cbm, lam2, mu2, both, SAME)
        tl.store(out + k[:, None] * PANEL + (b - panel * PANEL)[None, :], h, mask=both)


@triton.jit
def _logistic(gap, norm, C, taken):
    """Root of tau = C / (1 + exp(1 - gap + tau N)) in (0, C), see `paloma._compiled.steps`."""
    low = tl.zeros_like(gap)
    high = C
    tau = tl.minimum(C, 1.0 / norm)
    moving = tl.max(taken.to(tl.int32))
    attempt = 0
    while (attempt < 160) & (moving > 0):
        u = 1.0 - gap + tau * norm
        small = tl.exp(-tl.abs(u))
        sigma = tl.where(u > 0.0, small, 1.0) / (1.0 + small)
        excess = tau - C * sigma
        high = tl.where(excess > 0.0, tau, high)
        low = tl.where(excess > 0.0, low, tau)
        new = tau - excess / (1.0 + C * norm * sigma * (1.0 - sigma))
        halve = (attempt >= 16) & (attempt % 2 == 0)
        new = tl.where((low < new) & (new < high) & (halve == 0), new, 0.5 * (low + high))
        moving = tl.max((taken & (tl.abs(new - tau) > 1e-15 * new)).to(tl.int32))
        tau = new
        attempt += 1
    return tl.where(taken, tau, 0.0)


@triton.jit
def _step(gap, slope, cap, norm, first, KIND: tl.constexpr):
    """tau of theory 1: KIND 0 is min(cap, gap slope), 1 the same below a level, 2 rescaled, 3 logistic."""
    if KIND == 3:
        return _logistic(gap, norm, cap, slope > 0.0)
    if KIND == 2:
        cap = cap * tl.exp(-first * gap)
    tau = tl.where(gap > 0.0, tl.minimum(cap, gap * slope), 0.0)
    if KIND == 1:
        tau = tl.where(gap < first, tau, 0.0)
    return tau


@triton.jit
def _sweep_panel(
    products, values, members, margins, slopes, caps, norms, taus, gaps, start, n, sign, first, KIND: tl.constexpr,
    PANEL: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Steps and gaps of the triplets of one panel, in order; `values` are true before the panel.

    What the next WIDTH triplets need of memory is asked for before the steps of the present ones are taken.
    """
    lanes, before = tl.arange(0, WIDTH), tl.arange(0, PANEL)
    whole = start + before
    plus = tl.load(members + 2 * whole, mask=whole < n, other=0)
    minus = tl.load(members + 2 * whole + 1, mask=whole < n, other=0)
    begin = tl.load(margins + whole, mask=whole < n, other=0.0)
    tl.store(gaps + whole, begin + sign * (tl.load(values + plus) - tl.load(values + minus)), mask=whole < n)
    tl.debug_barrier()
    t = start + lanes
    taken = t < n
    gap = tl.load(gaps + t, mask=taken, other=0.0)
    slope, cap = tl.load(slopes + t, mask=taken, other=0.0), tl.load(caps + t, mask=taken, other=0.0)
    norm = tl.load(norms + t, mask=taken, other=1.0)
    for a in range(0, tl.minimum(PANEL, n - start), WIDTH):
        t = start + a + lanes
        taken = t < n
        later = t + WIDTH
        there = (later < n) & (a + WIDTH < PANEL)
        next_gap = tl.load(gaps + later, mask=there, other=0.0)
        next_slope = tl.load(slopes + later, mask=there, other=0.0)
        next_cap = tl.load(caps + later, mask=there, other=0.0)
        next_norm = tl.load(norms + later, mask=there, other=1.0)
        h = tl.load(
            products + whole[:, None] * PANEL + (a + WIDTH + lanes)[None, :],
            mask=(before < a + WIDTH)[:, None] & there[None, :], other=0.0,
        )  # fmt: skip
        for j in tl.static_range(WIDTH):
            row = tl.load(products + (start + a + j) * PANEL + a + lanes, mask=taken & (lanes > j), other=0.0)
            tau = _step(gap, slope, cap, norm, first, KIND)
            gap -= tl.gather(tau, tl.full([WIDTH], j, tl.int32), 0) * row
        tl.store(taus + t, _step(gap, slope, cap, norm, first, KIND), mask=taken)
        tl.store(gaps + t, gap, mask=taken)
        tl.debug_barrier()
        steps = tl.load(taus + whole, mask=(before < a + WIDTH) & (whole < n), other=0.0)
        gap = next_gap - tl.sum(steps[:, None] * h, axis=0)
        slope, cap, norm = next_slope, next_cap, next_norm


@triton.jit
def _spread_panel(
    values, left, right, members, slots, taus, tile, start, n_pairs, sign, lam2, mu2, SAME: tl.constexpr,
    PANEL: tl.constexpr, BR: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """What the steps of one full panel do to the values of a tile of pairs."""
    r = tile * BR + tl.arange(0, BR)
    inside = r < n_pairs
    mine = tl.load(slots + r, mask=inside, other=-1)[None, :]
    change = tl.zeros([BR], tl.float64)
    for a in range(start, start + PANEL, BT):
        t = a + tl.arange(0, BT)
        tau = tl.load(taus + t)
        if tl.max(tau) > 0.0:
            plus = tl.load(members + 2 * t).to(tl.int64)
            minus = tl.load(members + 2 * t + 1).to(tl.int64)
            up, down = tl.load(slots + plus)[:, None], tl.load(slots + minus)[:, None]
            both = inside[None, :]
            one = _kernel_value(left, right, plus[:, None], r[None, :], n_pairs, up, mine, lam2, mu2, both, SAME)
            one -= _kernel_value(left, right, minus[:, None], r[None, :], n_pairs, down, mine, lam2, mu2, both, SAME)
            change += tl.sum(tau[:, None] * one, axis=0)
    tl.store(values + r, tl.load(values + r, mask=inside) - sign * change, mask=inside)


@triton.jit
def _meet(arrived, target):
    """Wait until all programs have come here."""
    tl.debug_barrier()
    tl.atomic_add(arrived, 1)
    while tl.atomic_add(arrived, 0) < target:
        pass


@triton.jit(
    do_not_specialize=["n", "n_pairs", "met"],
    do_not_specialize_on_alignment=["members", "slots", "margins", "slopes", "caps", "norms", "taus", "gaps"],
)
def sweep(
    products, values, left, right, members, slots, margins, slopes, caps, norms, taus, gaps, arrived, met, n, n_pairs,
    sign, constants, KIND: tl.constexpr, SAME: tl.constexpr, PANEL: tl.constexpr, WIDTH: tl.constexpr, BR: tl.constexpr,
    BT: tl.constexpr,
):  # fmt: skip
    """The recursion of theory 10 over a block: panel after panel, the first program takes the steps of its triplets,
    then all programs account for them in the values of all pairs.

    There may be no more programs than multiprocessors, because they wait for each other. arrived : a counter of those
    that did, which stands at `met` before.
    """
    me, programs = tl.program_id(0), tl.num_programs(0)
    lam2, mu2, first = tl.load(constants), tl.load(constants + 1), tl.load(constants + 2)
    for start in range(0, n, PANEL):
        if me == 0:
            _sweep_panel(
                products, values, members, margins, slopes, caps, norms, taus, gaps, start, n, sign, first, KIND,
                PANEL, WIDTH,
            )  # fmt: skip
        if start + PANEL < n:
            met += programs
            _meet(arrived, met)
            for tile in range(me, tl.cdiv(n_pairs, BR), programs):
                _spread_panel(
                    values, left, right, members, slots, taus, tile, start, n_pairs, sign, lam2, mu2, SAME, PANEL, BR,
                    BT,
                )  # fmt: skip
            met += programs
            _meet(arrived, met)


@triton.jit(do_not_specialize=["n_pairs", "origin"], do_not_specialize_on_alignment=["taus", "uses", "use_edges"])
def net_steps(taus, uses, use_edges, out, n_pairs, origin, BR: tl.constexpr):
    """Net step of each pair: the steps of triplets that name it as positive, minus those that do as negative."""
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    inside = r < n_pairs
    begin = tl.load(use_edges + r, mask=inside, other=0)
    end = tl.load(use_edges + r + 1, mask=inside, other=0)
    total = tl.zeros([BR], tl.float64)
    for k in range(tl.max(end - begin)):
        taken = begin + k < end
        use = tl.load(uses + begin + k, mask=taken, other=0)
        tau = tl.load(taus + use // 2 - origin, mask=taken, other=0.0)
        total += tl.where(use % 2 == 0, tau, -tau)
    tl.store(out + r, total, mask=inside)
