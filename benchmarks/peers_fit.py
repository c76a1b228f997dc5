"""Runs in the environment of the peers (scikit-learn below 1.8, metric-learn): learns a linear map from a split.

``python peers_fit.py SPLIT.npz METHOD RESULT.npz``: reads train and labels, writes components and CPU seconds.
It imports nothing of paloma, whose dependencies that environment does not have.
"""

import sys
import time
import warnings
from typing import Any

import numpy as np
from metric_learn import LMNN, SCML_Supervised

warnings.simplefilter("ignore")  # of metric-learn, about scikit-learn

# The neighbors of the paper's triplets; iterations bounded, because LMNN's default of 1,000 takes hours on Letters.
PEERS = {
    "LMNN": lambda: LMNN(n_neighbors=3, max_iter=50, random_state=0),
    "SCML": lambda: SCML_Supervised(k_genuine=3, k_impostor=10, random_state=0),
}


def main(split: str, method: str, result: str) -> None:
    with np.load(split) as file:
        train, labels = file["train"].astype(np.float64), file["labels"]
    begin = time.process_time()
    learner: Any = PEERS[method]().fit(train, labels)
    seconds = time.process_time() - begin
    np.savez(result, components=learner.components_, seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
