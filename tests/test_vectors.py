"""Forms and moves in vector instructions against the same functions without numba, for rows that are ragged or not."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import njit

from paloma._compiled.products import gram_of, row_forms, subtract_rows
from paloma._compiled.tiles import WIDE_VECTORS
from paloma._compiled.vectors import forms, is_ragged, move

CLOSE = {np.float64: {"rtol": 1e-12, "atol": 1e-12}, np.float32: {"rtol": 1e-4, "atol": 1e-4}}


@njit
def compiled_forms(ragged, first, i, a, second, j, b):
    return forms(ragged, first, i, a, second, j, b)


@njit
def compiled_moves(ragged, shared, stack, k, x, a, b):
    move(ragged, shared, 0, x, a, b)
    move(ragged, stack, k, x, a)


def problem(d, dtype):
    rng = np.random.default_rng(d)
    stack = rng.normal(size=(3, d, d))
    stack = (stack + stack.transpose(0, 2, 1)).astype(dtype)
    return stack, *rng.normal(size=(2, d + 5)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 23, 32])
def test_forms_and_moves(d, dtype):
    stack, a, b = problem(d, dtype)
    ragged, close = is_ragged(d, dtype), CLOSE[dtype]
    assert (ragged is None) == (d % (32 // np.dtype(dtype).itemsize) == 0)
    np.testing.assert_allclose(
        compiled_forms(ragged, stack, 2, a, stack, np.int32(1), b), forms(ragged, stack, 2, a, stack, 1, b), **close
    )
    np.testing.assert_allclose(
        compiled_forms(True, stack[0], 0, a, stack[0], 0, b), forms(True, stack[0], 0, a, stack[0], 0, b), **close
    )
    shared, moved = stack[0].copy(), stack.copy()
    compiled_moves(ragged, shared, moved, 1, dtype(0.3), a, b)
    expected, others = stack[0].copy(), stack.copy()
    move(ragged, expected, 0, dtype(0.3), a, b)
    move(ragged, others, 1, dtype(0.3), a)
    np.testing.assert_allclose(np.triu(shared), np.triu(expected), **close)
    np.testing.assert_allclose(np.triu(moved), np.triu(others), **close)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("d", "n"), [(1, 1), (3, 9), (8, 8), (15, 1), (16, 7), (17, 16), (33, 5), (48, 20), (70, 3), (128, 13), (150, 4)]
)
def test_products_with_many_rows(d, n, dtype):
    matrix, rng = problem(d, dtype)[0][0], np.random.default_rng(n)
    rows, weight, out = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=n), np.full(n + 1, np.nan)
    weight[::3] = 0.0
    row_forms(matrix, rows, out[:n])
    np.testing.assert_allclose(
        out[:n], ((rows @ matrix) * rows).sum(axis=1), rtol=CLOSE[dtype]["rtol"], atol=100 * CLOSE[dtype]["atol"]
    )
    assert np.isnan(out[n])
    expected = matrix - (rows.T * weight) @ rows
    subtract_rows(matrix, rows, weight)
    np.testing.assert_allclose(np.triu(matrix), np.triu(expected), **CLOSE[dtype])
    products = np.full((n + 1, n), np.nan, dtype)
    gram_of(rows, products[:n])
    np.testing.assert_allclose(products[:n], rows @ rows.T, rtol=CLOSE[dtype]["rtol"], atol=100 * CLOSE[dtype]["atol"])
    assert np.isnan(products[n]).all()


@pytest.mark.skipif(not WIDE_VECTORS, reason="this processor has no vectors of 64 bytes to do without")
def test_processors_with_narrow_vectors():
    narrow = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+sse4.2"}
    code = "from paloma._compiled.tiles import WIDE_VECTORS; assert not WIDE_VECTORS; import pytest, sys; "
    code += f"sys.exit(pytest.main([{__file__!r}, '-q', '-p', 'no:cacheprovider', '-k', 'many_rows or moves']))"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | narrow, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_beyond_the_matrix_is_touched():
    for d in (1, 3, 5, 16, 17):
        stack, a, b = problem(d, np.float64)
        a[d:], b[d:] = np.nan, np.nan
        before = stack.copy()
        compiled_moves(is_ragged(d, np.float64), stack[0], stack, 1, 0.5, a, b)
        np.testing.assert_array_equal(stack[2], before[2])
        assert np.isfinite(stack).all()
        assert np.isfinite(compiled_forms(is_ragged(d, np.float64), stack, 0, a, stack, 2, b)).all()
