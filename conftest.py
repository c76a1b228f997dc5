"""What pytest looks for examples in: not the settings of the site; those with torch only where it is installed."""

from importlib.util import find_spec

import pytest

collect_ignore = ["docs/conf.py"]
if find_spec("torch") is None:  # too large for the extra dev
    collect_ignore += ["src/paloma/export/_torch.py", "src/paloma/_device.py", "src/paloma/_search/device.py"]
    collect_ignore_glob = ["src/paloma/_spaces/device/*"]


def pytest_collection_modifyitems(items):
    if find_spec("torch") is None:
        for item in items:
            if item.name == "paloma.export.to_torch":
                item.add_marker(pytest.mark.skip(reason="torch is in the extra torch, not in dev"))
