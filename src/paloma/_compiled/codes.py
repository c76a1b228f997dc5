"""Products with rows that are held in one byte per feature: a quarter of the memory that float32 would read."""

import numpy as np

from .jit import compiled


@compiled
def coded_values(codes, scales, vector, constants):
    """constant - 2 scale <codes, vector> of each row of int8 codes; all else is in float32."""
    out = np.empty(codes.shape[0], np.float32)
    for i in range(codes.shape[0]):
        total = np.float32(0.0)
        for s in range(codes.shape[1]):
            total += np.float32(codes[i, s]) * vector[s]
        out[i] = constants[i] - np.float32(2.0) * scales[i] * total
    return out
