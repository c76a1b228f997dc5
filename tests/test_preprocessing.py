"""UnitRows: scikit-learn's checks, scale invariance, sparse and float32 input, edge rows, messages."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils.estimator_checks import parametrize_with_checks

from paloma.datasets import load_letters
from paloma.preprocessing import FillMissing, UnitRows


@parametrize_with_checks([FillMissing(), UnitRows(), UnitRows(constant=None)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(40, 5)) + 1


def test_matches_the_formula(X):
    kappa = 0.5 * np.sqrt(np.mean(np.sum(X**2, axis=1)))
    expected = normalize(np.column_stack([X, np.full(len(X), kappa)]))
    scaler = UnitRows(constant=0.5)
    np.testing.assert_allclose(scaler.fit_transform(X), expected, rtol=1e-13)
    assert scaler.constant_ == pytest.approx(kappa)


def test_default_appends_three_on_standardized_letters():
    letters, _ = load_letters(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), UnitRows()).fit(letters)
    assert pipeline[-1].constant_ == pytest.approx(3.0)


@pytest.mark.parametrize("factor", [1000.0, 1e-3, 1e150, 1e-150])
@pytest.mark.parametrize("constant", [0.75, None])
def test_units_do_not_matter(X, factor, constant):
    scaler = UnitRows(constant=constant)
    np.testing.assert_allclose(scaler.fit_transform(factor * X), scaler.fit_transform(X), rtol=1e-12)


@pytest.mark.parametrize("factor", [1e30, 1e-30])
def test_units_do_not_matter_in_float32(X, factor):
    X32 = X.astype(np.float32)
    scaled = X32 * np.float32(factor)
    scaler = UnitRows()
    np.testing.assert_allclose(scaler.fit_transform(scaled), scaler.fit_transform(X32), rtol=1e-5)


@pytest.mark.parametrize("constant", [0.75, 0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array])
def test_sparse_equals_dense_and_stays_sparse(X, constant, dtype, container):
    X = np.where(X > 1, X, 0).astype(dtype)
    X[3] = 0
    before = container(X)
    scaler = UnitRows(constant=constant).fit(before)
    result = scaler.transform(before)
    assert sparse.issparse(result)
    assert result.format == "csr"
    assert result.dtype == dtype
    assert result.nnz == np.count_nonzero(X) + (len(X) if constant else 0)
    np.testing.assert_allclose(result.toarray(), clone(scaler).fit_transform(X), rtol=1e-6)
    np.testing.assert_array_equal(before.toarray(), X)


def test_float32_stays_float32_and_input_stays_as_it_was(X):
    X32 = X.astype(np.float32)
    X32.setflags(write=False)
    result = UnitRows().fit_transform(X32)
    assert result.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(result, axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(X32, X.astype(np.float32))


def test_zero_rows(X):
    X[0] = 0
    np.testing.assert_array_equal(UnitRows().fit_transform(X)[0], [0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(UnitRows(constant=0).fit_transform(X)[0], np.zeros(5))


def test_data_without_scale():
    zeros = np.zeros((3, 2))
    np.testing.assert_array_equal(UnitRows().fit_transform(zeros), [[0, 0, 1]] * 3)


def test_new_rows_get_the_constant_of_fit(X):
    scaler = UnitRows().fit(X)
    row = scaler.transform(10 * X[:1])[0]
    assert row[-1] / row[0] == pytest.approx(scaler.constant_ / (10 * X[0, 0]))


def test_feature_names_and_pandas_output(X):
    frame = pd.DataFrame(X, columns=list("abcde"), index=range(100, 140))
    result = UnitRows().set_output(transform="pandas").fit_transform(frame)
    assert list(result.columns) == ["a", "b", "c", "d", "e", "unitrows_constant"]
    assert list(result.index) == list(frame.index)
    assert list(UnitRows(constant=None).fit(frame).get_feature_names_out()) == list("abcde")


@pytest.mark.parametrize("constant", [-1, np.nan, np.inf, "auto", True])
def test_bad_constant_is_named(X, constant):
    with pytest.raises(ValueError, match="UnitRows: constant must be None or a finite number >= 0; got"):
        UnitRows(constant=constant).fit(X)
