"""A module in place of metric-learn, as text: a learner that takes so long and doubles all distances."""

STAND_IN = """
import time
import numpy as np


class StandIn:
    def __init__(self, **parameters):
        pass

    def fit(self, X, y):
        assert X.dtype == np.float64 and len(X) == len(y)
        begin = time.process_time()
        while time.process_time() < begin + {seconds}:
            pass
        self.components_ = 2 * np.eye(X.shape[1])
        return self
"""
