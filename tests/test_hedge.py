"""Hedge: weights against the plain recursion, its regret bounds on streams, and a record that stays small."""

import pickle

import numpy as np
import pytest

from paloma._core.hedge import RECORD, Hedge, check_beta


def stream(T, m, seed=0, kind="mistakes"):
    """Losses of m experts, some better than others, whose quality drifts half-way."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.1, 0.9, (2, m))
    chance = np.where(np.arange(T)[:, None] < T // 2, rates[0], rates[1])
    if kind == "losses":
        return np.clip(chance + rng.normal(size=(T, m)) * 0.1, 0, 1)
    return rng.random((T, m)) < chance


def against_the_leader(T, m):
    """The adversary: the expert that has done best so far errs next."""
    losses, sums = np.zeros((T, m)), np.zeros(m)
    for t in range(T):
        losses[t, np.argmin(sums)] = 1
        sums += losses[t]
    return losses


def plain(losses, beta, taking_part):
    """Multiply and normalize, a round at a time (theory 4); weights before each round, and after the last."""
    theta = np.full(losses.shape[1], 1 / losses.shape[1])
    out = [theta]
    for loss, active in zip(losses, taking_part, strict=True):
        theta = theta * beta ** (loss * active)
        theta = theta / theta.sum()
        out.append(theta)
    return np.array(out)


@pytest.mark.parametrize("beta", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("kind", ["mistakes", "losses"])
@pytest.mark.parametrize("who", ["all", "rounds", "experts"])
def test_weights_are_those_of_the_plain_recursion(beta, kind, who):
    losses = stream(300, 4, kind=kind)
    rng = np.random.default_rng(1)
    mask = {"all": None, "rounds": rng.random(300) < 0.5, "experts": rng.random((300, 4)) < 0.5}[who]
    full = np.ones((300, 4)) if mask is None else np.broadcast_to(mask.reshape(300, -1), (300, 4))
    hedge = Hedge(4, beta)
    assert hedge.play(losses[:0], None if mask is None else mask[:0]).shape == (0, 4)
    before = hedge.play(losses, mask)
    expected = plain(losses, beta, full)
    assert np.allclose(before, expected[:-1], rtol=1e-10, atol=1e-300)
    assert np.allclose(hedge.weights, expected[-1], rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("beta", [0.9, "auto"])
def test_cutting_the_stream_changes_no_bit(beta):
    losses = stream(1000, 3)
    whole, pieces = Hedge(3, beta), Hedge(3, beta)
    before = whole.play(losses)
    parts = []
    for a, b in [(0, 1), (1, 200), (200, 200), (200, 777), (777, 1000)]:
        pieces = pickle.loads(pickle.dumps(pieces))
        parts.append(pieces.play(losses[a:b]))
    assert np.array_equal(np.vstack(parts), before)
    assert np.array_equal(pieces.weights, whole.weights)
    assert all(np.array_equal(a, b) for a, b in zip(pieces.history, whole.history, strict=True))


@pytest.mark.parametrize("beta", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("m", [2, 10])
@pytest.mark.parametrize("seed", range(5))
def test_loss_stays_below_the_bound_of_freund_and_schapire(beta, m, seed):
    """L(Hedge) <= (ln(1/beta) min_r L_r + ln m) / (1 - beta)."""
    for losses in (stream(2000, m, seed), stream(2000, m, seed, "losses"), against_the_leader(2000, m)):
        suffered = (Hedge(m, beta).play(losses) * losses).sum()
        assert suffered <= (-np.log(beta) * losses.sum(axis=0).min() + np.log(m)) / (1 - beta)


@pytest.mark.parametrize("m", [2, 10])
@pytest.mark.parametrize("T", [10, 400, 20_000])
def test_regret_of_auto_grows_as_the_root_of_the_rounds(m, T):
    """Known horizon: sqrt(2 T ln m) + ln m; without it ln m / eta_T + sum eta_t / 8, which is of the same order."""
    tuned = np.sqrt(T) / (np.sqrt(T) + np.sqrt(np.log(m)))
    eta = -Hedge(m, "auto").log_betas(T + 1)
    bounds = {tuned: np.sqrt(2 * T * np.log(m)) + np.log(m), "auto": np.log(m) / eta[-1] + eta.sum() / 8}
    assert bounds["auto"] <= 1.3 * np.sqrt(T * np.log(m)) + np.log(m) + 1
    for losses in (stream(T, m), against_the_leader(T, m)):
        for beta, bound in bounds.items():
            regret = (Hedge(m, beta).play(losses) * losses).sum() - losses.sum(axis=0).min()
            assert regret <= bound


def test_the_best_expert_wins_and_nothing_underflows():
    losses = np.tile([1.0, 0.0, 1.0], (100_000, 1))
    hedge = Hedge(3, 0.5)
    hedge.play(losses)
    assert hedge.weights.tolist() == [0.0, 1.0, 0.0]
    assert np.isfinite(hedge.log_weights).all()
    hedge.play(np.tile([0.0, 1.0, 1.0], (100_000, 1)))
    assert np.allclose(hedge.weights, [0.5, 0.5, 0.0])


def test_beta_one_is_the_uniform_combination():
    hedge = Hedge(4, 1.0)
    assert (hedge.play(stream(50, 4)) == 0.25).all()
    assert (hedge.weights == 0.25).all()


def test_one_expert_has_all_the_weight():
    hedge = Hedge(1, "auto")
    assert (hedge.play(stream(10, 1)) == 1).all()


def test_the_record_is_bounded_evenly_spread_and_true():
    losses, hedge = stream(10 * RECORD + 3, 2), Hedge(2, 0.99)
    before = np.vstack([hedge.play(part) for part in np.array_split(losses, 17)])
    rounds, weights = hedge.history
    assert RECORD // 2 < len(rounds) <= RECORD + 1
    assert len(set(np.diff(rounds[:-1]).tolist())) == 1
    assert rounds[-1] == len(losses)
    assert np.array_equal(weights[:-1], before[rounds[:-1]])
    assert np.array_equal(weights[-1], hedge.weights)


@pytest.mark.parametrize("beta", [0, 1.5, -0.1, "tuned", None, True, np.nan])
def test_bad_beta_is_refused(beta):
    with pytest.raises(ValueError, match="beta must be"):
        check_beta(beta)
