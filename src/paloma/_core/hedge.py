"""Hedge (Freund & Schapire 1997): weights of several experts from their losses, on log weights (theory 4 and 5).

Each round multiplies the weight of expert r by beta^loss_r, losses in [0, 1], and normalizes:

    log theta_r = log(beta) (sum of r's losses so far) - logsumexp of the same over all experts.

The sums are the state. Of mistakes, 0 or 1, they are whole numbers, so cutting a stream into calls changes no bit.
"""

import copy
from typing import Any

import numpy as np
from scipy.special import log_softmax

from .._typing import Array
from .._validation import check_real
from .fields import Field, Schema

# The record of weights over time keeps at most this many rounds, evenly spread: when full, every other one goes.
RECORD = 256


def check_beta(beta: Any) -> None:
    """Refuse a discount that is neither "auto" nor in (0, 1]."""
    if isinstance(beta, str) and beta == "auto":
        return
    if isinstance(beta, str):
        raise ValueError(f"beta must be 'auto' or a number in (0, 1], got {beta!r}.")
    check_real("beta", beta, 0.0, 1.0, open_low=True)


def followed(weights: Array, strength: tuple[float, float]) -> tuple[Array, list[tuple[float, float]]]:
    """A sum of metrics M_r with these weights at (s, t) of theory 22, from equal weights: w, and (s, t) of each,

    sum_r w_r M_r(s_r, t_r) = (1 - s) mean_r M_r(0, 0) + sum_r weights_r (M_r(s, t) - (1 - s) M_r(0, 0)).
    """
    s, t = strength
    mixed = (1.0 - s) / len(weights) + s * weights
    shares = np.divide(weights, mixed, out=np.ones(len(weights)), where=mixed > 0.0)
    return mixed, [(s * share, t * share) for share in shares.tolist()]


class Hedge:
    """Weights of m experts, uniform at first.

    Parameters
    ----------
    m : int
        Number of experts.
    beta : float in (0, 1] or "auto"
        What a full loss multiplies a weight by. 1 never discounts: the uniform combination. "auto" is the value tuned
        to the rounds so far, sqrt(t) / (sqrt(t) + sqrt(ln m)) in round t, whose regret grows as sqrt(t ln m) without
        knowing the horizon.

    Examples
    --------
    >>> hedge = Hedge(2, beta=0.5)
    >>> hedge.play(np.array([[1, 0], [1, 0]])).round(2)
    array([[0.5 , 0.5 ],
           [0.33, 0.67]])
    >>> hedge.weights.round(2)
    array([0.2, 0.8])
    """

    def __init__(self, m: int, beta: float | str) -> None:
        self.beta = beta
        self.losses = np.zeros(m)
        self.rounds = 0
        self.begun = (self.losses, 0)  # where a fork began, see `fork`
        self._every = 1
        self._when = np.zeros(0, np.int64)
        self._record = np.zeros((0, m))

    def log_betas(self, n: int) -> Array:
        """log(beta) of each of the next n rounds."""
        if self.beta != "auto":
            return np.full(n, np.log(float(self.beta)))
        t = np.arange(self.rounds + 1, self.rounds + n + 1)
        return -np.log1p(np.sqrt(np.log(len(self.losses)) / t))

    @property
    def log_weights(self) -> Array:
        """log theta of the next round."""
        return log_softmax(self.log_betas(1) * self.losses)

    @property
    def weights(self) -> Array:
        """theta of the next round; sums to 1."""
        return np.exp(self.log_weights)

    def play(self, losses: Array, taking_part: Array | None = None) -> Array:
        """Discount by the losses of T rounds; returns the (T, m) weights that held before each.

        Parameters
        ----------
        losses : (T, m) array
            In [0, 1], or mistakes as booleans.
        taking_part : (T,) or (T, m) booleans, optional
            Rounds, or experts in rounds, that are discounted; the others keep their sums.
        """
        charged = np.asarray(losses, np.float64)
        if taking_part is not None:
            mask = np.asarray(taking_part)
            charged = charged * (mask[:, None] if mask.ndim == 1 else mask)
        sums = np.cumsum(np.vstack([self.losses, charged]), axis=0)
        weights = np.exp(log_softmax(self.log_betas(len(charged))[:, None] * sums[:-1], axis=1))
        self._remember(weights)
        self.rounds += len(charged)
        self.losses = sums[-1]
        return weights

    def fork(self) -> "Hedge":
        """A copy that plays rounds of its own from here on."""
        out = copy.deepcopy(self)
        out.begun = (self.losses, self.rounds)
        return out

    @classmethod
    def mixed(cls, forks: list["Hedge"]) -> "Hedge":
        """The rounds of all forks of one game, as if played one after the other: sums of losses are the state."""
        out = copy.deepcopy(forks[0])
        losses, rounds = out.begun
        out.losses = losses + sum(fork.losses - losses for fork in forks)
        out.rounds = rounds + sum(fork.rounds - rounds for fork in forks)
        return out

    @property
    def history(self) -> tuple[Array, Array]:
        """Rounds played, and the weights at that point: evenly spread over all rounds, the present ones last."""
        return np.append(self._when, self.rounds), np.vstack([self._record, self.weights])

    def saved(self) -> dict[str, Any]:
        """What a model file holds of it, by `hedge_schema`."""
        names = ("losses", "rounds", "every", "when", "record")
        return dict(zip(names, (self.losses, self.rounds, self._every, self._when, self._record), strict=True))

    @classmethod
    def restored(cls, state: dict[str, Any], beta: float | str) -> "Hedge":
        """From a state that passed `hedge_schema`."""
        out = cls(len(state["losses"]), beta)
        out.losses, out.rounds, out._every = state["losses"], state["rounds"], state["every"]
        out._when, out._record = state["when"], state["record"]
        out.begun = (out.losses, out.rounds)
        return out

    def _remember(self, weights: Array) -> None:
        """Take in the weights before every `_every`-th round; thin the record out whenever it is full."""
        rounds = np.arange(self.rounds, self.rounds + len(weights))
        while True:
            new = rounds % self._every == 0
            if len(self._when) + np.count_nonzero(new) <= RECORD:
                break
            self._every *= 2
            kept = self._when % self._every == 0
            self._when, self._record = self._when[kept], self._record[kept]
        self._when = np.concatenate([self._when, rounds[new]])
        self._record = np.vstack([self._record, weights[new]])


def hedge_schema(m: int) -> Schema:
    """The state of Hedge over m experts."""
    return Schema(
        Field("losses", "f8", str(m), 0.0),
        Field("rounds", "int", low=0),
        Field("every", "int", low=1, high=2**53),
        Field("when", "i8", f"t<={RECORD}", 0, below="rounds"),
        Field("record", "f8", f"t {m}", 0.0, 1.0),
        rule=_consistent,
    )


def _consistent(state: dict[str, Any]) -> str | None:
    when, every = state["when"], state["every"]
    if every & (every - 1) or (when % every).any() or (np.diff(when) <= 0).any():
        return "the record must hold rounds that are multiples of a power of two, in order"
    return "losses cannot be more than the rounds" if (state["losses"] > state["rounds"]).any() else None
