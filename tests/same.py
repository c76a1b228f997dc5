"""Whether two objects are the same to the bit, attribute by attribute; read-outs, which are caches, left aside."""

import numpy as np
import scipy.sparse as sp

CACHES = {"metric"}


def assert_same(one, two, where="model"):
    assert type(one) is type(two), where
    if isinstance(one, np.ndarray) and one.dtype != object:
        assert (one.dtype, one.shape) == (two.dtype, two.shape), where
        assert one.tobytes() == two.tobytes(), where
        assert one.flags.writeable == two.flags.writeable, where
        assert two.flags.c_contiguous or not one.flags.c_contiguous, where
        assert two.flags.f_contiguous or not one.flags.f_contiguous, where
    elif isinstance(one, list | tuple | np.ndarray):
        assert len(one) == len(two), where
        for k, (a, b) in enumerate(zip(one, two, strict=True)):
            assert_same(a, b, f"{where}[{k}]")
    elif isinstance(one, dict):
        assert list(one) == list(two), where
        for key in one:
            assert_same(one[key], two[key], f"{where}[{key!r}]")
    elif sp.issparse(one):
        assert_same(
            [one.shape, one.data, one.indices, one.indptr], [two.shape, two.data, two.indices, two.indptr], where
        )
    elif isinstance(one, np.random.Generator):
        assert one.bit_generator.state == two.bit_generator.state, where
    elif isinstance(one, np.random.RandomState):
        assert_same(one.get_state(legacy=False), two.get_state(legacy=False), where)
    elif hasattr(one, "__dict__") and type(one).__module__.partition(".")[0] in ("paloma", "sklearn"):
        mine, theirs = ({k: v for k, v in vars(m).items() if _kept(m, k)} for m in (one, two))
        if hasattr(one, "places") and hasattr(one, "rows") and one.rows is not None:
            for part in (mine, theirs):  # a reservoir has room to grow
                part["rows"] = part["rows"][: len(part["codes"])]
        assert mine.keys() == theirs.keys(), where
        for key in mine:
            assert_same(mine[key], theirs[key], f"{where}.{key}")
    else:
        assert one == two or (one != one and two != two), where


def _kept(owner, name):
    return not (name in CACHES and hasattr(owner, "reservoir"))
