import numpy as np
import pytest

from paloma.feedback import Statement
from paloma.feedback._guard import CAUTION, LEAST, STRENGTHS, WINDOW, Judged, Scores
from paloma.feedback._log import Log

N = 600  # several sheets, the last one not full


def spoken(ids):
    return [Statement(id=id, query=k, relevant=[k + 1, k + 2], user=f"user{k % 3}", time=0.5 * k)
            for k, id in enumerate(ids)]  # fmt: skip


@pytest.mark.parametrize(
    "ids",
    [
        range(N),
        range(-7, 5 * N, 5),
        [*range(300), 2**70, *range(300, 599)],
        [*range(400), *range(2 * N, N, -1)][:N],
        [f"said {k * 7919 % N}" for k in range(N)],
        [str(k) if k % 3 else k for k in range(N)],
    ],
    ids=["numbers", "steps", "huge", "falling", "names", "mixed"],
)
def test_a_log_is_the_list_of_what_was_said(ids):
    said = spoken(ids[:N])
    log = Log(said[:200])
    for each in said[200:]:
        log.extend([each])
    assert list(log) == said == log[:]
    assert len(log) == N
    assert list(log.ids) == list(ids[:N])
    assert [log[k] for k in (0, 127, 128, -1)] == [said[k] for k in (0, 127, 128, -1)]
    assert log[100:300:7] == said[100:300:7]
    assert log[-5:] == said[-5:]
    assert all(log.get(each.id) == each for each in said)
    assert all(log.get(other) is None for other in (-1000, 10**6, "nothing", 2**80))
    with pytest.raises(IndexError):
        log[N]


@pytest.mark.parametrize("ids", [range(5), [4, 3, 2, 1, 0]])
def test_a_number_of_numpy_is_a_number(ids):
    assert Log(spoken(ids)).get(np.int64(3)).id == 3


@pytest.mark.parametrize("gone", [[0], [127], [128], [599], [3, 300, 301], range(100, 600), range(N)])
def test_a_log_without_some(gone):
    said = spoken(range(N))
    log = Log(said)
    rest = [each for k, each in enumerate(said) if k not in set(gone)]
    left = log.without(gone)
    assert list(left) == rest
    assert all(left.get(said[k].id) is None for k in gone)
    left.extend(spoken([N + 1]))
    assert left[-1].id == N + 1
    assert list(log) == said
    first = log.first(gone[0])
    assert list(first) == said[: gone[0]]
    first.extend([said[-1]])
    assert list(log) == said


@pytest.mark.parametrize("ids", [range(5 * N), [f"said {k}" for k in range(5 * N)]], ids=["numbers", "names"])
def test_a_log_that_loses_some_again_and_again(ids):
    """Sheets that lose none are shared, none gets too small or too large, and logs that came before stay the same."""
    rng, said = np.random.default_rng(3), spoken(ids)
    log, rest = Log(said), said
    for turn in range(60):
        before, held = log, list(rest)
        gone = rng.choice(len(rest), (1, 3, 40)[turn % 3], replace=False).tolist()
        log, rest = log.without(gone), [each for k, each in enumerate(rest) if k not in set(gone)]
        assert len(set(log._sheets) & set(before._sheets)) >= len(before._sheets) - 2 * len(gone)
        log.extend(spoken([f"new {turn}" if isinstance(ids[0], str) else 10**6 + turn]))
        rest = [*rest, log[-1]]
        assert list(before) == held
        assert list(log) == rest
        assert [each.id for each in rest] == list(log.ids)
        sizes = np.diff([0, *log._ends])
        assert ((sizes >= 64) & (sizes < 192)).all()
        n = int(rng.integers(len(rest)))
        assert list(log.first(n)) == rest[:n]
        assert log.get(rest[n].id) == rest[n]


def test_a_log_takes_little_room():
    rng = np.random.default_rng(0)
    log = Log(Statement(id=k, query=str(rng.integers(10**5)), relevant=rng.integers(10**5, size=5).astype(str).tolist(),
                        user=f"user{k % 8}", time=1.7e9 + k / 50) for k in range(20 * 128 + 1))  # fmt: skip
    held = sum(map(len, log._sheets)) + len(log._open[1]) * 200 + 8 * len(log)
    assert held < 60 * len(log)


def test_marks_are_summed_as_if_each_query_were_kept():
    """`Judged.distrusted` from moments equals the covariance taken query by query."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        n, names = int(rng.integers(1, 40)), np.array(["anna", "ben", "eve"])
        items, who = rng.integers(1, 12, n), names[rng.integers(3, size=n)]
        relevant = rng.integers(0, items + 1)
        distances = [rng.uniform(0.5, 2.0, k) for k in items]
        sums = np.array([[k, d.sum(), r, d[:r].sum()] for k, d, r in zip(items, distances, relevant, strict=True)])
        judged, half = Judged(), n // 2
        for part in (slice(0, half), slice(half, n)):
            judged = judged.extended(np.empty((0, len(STRENGTHS))), [], sums[part], who[part].tolist())
        found = set()
        for name in names:
            own = sums[who == name]
            if len(own) < LEAST:
                continue
            far, share = own[:, 1].sum() / own[:, 0].sum(), own[:, 2].sum() / own[:, 0].sum()
            against = own[:, 3] - far * own[:, 2] - share * own[:, 1] + own[:, 0] * far * share
            if against.sum() > CAUTION * np.sqrt((against**2).sum() * (1 + 1 / len(own))):
                found.add(name)
        assert judged.distrusted() == found


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_who_marks_one_kind_only_is_never_disbelieved_for_rounding(share):
    rng = np.random.default_rng(2)
    for _ in range(300):
        n = int(rng.integers(LEAST, 60))
        items = rng.integers(1, 12, n)
        distance = np.array([rng.uniform(0.1, 3.0, k).sum() for k in items])
        sums = np.column_stack([items, distance, share * items, share * distance])
        judged = Judged().extended(np.empty((0, len(STRENGTHS))), [], sums, ["anna"] * n)
        assert judged.distrusted() == judged.distrusted(frozenset({"anna"})) == set()


def test_scores_long_past_are_means_of_pages():
    rng, scores = np.random.default_rng(3), Scores()
    sizes = [1, 0, 2, *rng.integers(0, 33, 70).tolist()]
    pages = [(rng.random((n, len(STRENGTHS))), rng.integers(3, size=n)) for n in sizes]
    pages[4][0][:] = np.nan  # not judged
    for page in pages:
        scores = scores.extended(*page)
    whole, who = (np.concatenate(each) for each in zip(*pages, strict=True))
    means = np.concatenate([np.broadcast_to(page.mean(axis=0), page.shape) for page, _ in pages if len(page)])
    n_past = len(scores) - sum(len(codes) for _, codes in scores.pages)
    assert len(scores) == len(whole) > n_past > 0
    assert len(whole) - n_past < WINDOW + 33
    assert np.array_equal(scores.shares, np.concatenate([means[:n_past], whole[n_past:]]), equal_nan=True)
    for found, given in zip(scores.recent, (whole, who), strict=True):
        assert np.array_equal(found, given[-WINDOW:])
    again = Scores.of_arrays(**scores.as_arrays())
    more = rng.random((WINDOW, len(STRENGTHS))), np.zeros(WINDOW, np.int64)
    for one, other in ((scores, again), (scores.extended(*more), again.extended(*more))):
        assert np.array_equal(one.shares, other.shares, equal_nan=True)
        assert [len(codes) for _, codes in one.pages] == [len(codes) for _, codes in other.pages]
