"""Examples that need torch, which is too large for the dev extra, are skipped where it is missing."""

from importlib.util import find_spec

import pytest

collect_ignore = [] if find_spec("torch") else ["src/paloma/export/_torch.py"]


def pytest_collection_modifyitems(items):
    if find_spec("torch") is None:
        for item in items:
            if item.name == "paloma.export.to_torch":
                item.add_marker(pytest.mark.skip(reason="torch is in the extra torch, not in dev"))
