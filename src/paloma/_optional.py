"""Import of an optional dependency, with the extra to install when it is missing."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


def optional(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say in one sentence what to install.

    Parameters
    ----------
    module : str
        Dotted name, e.g. ``"matplotlib.pyplot"``.
    extra : str
        The extra of paloma that brings it, e.g. ``"plot"``.

    Returns
    -------
    module
        The imported module. An error inside an installed dependency is passed on unchanged.

    Examples
    --------
    >>> optional("math", "plot").sqrt(9.0)
    3.0
    >>> optional("no_such_module", "plot")
    Traceback (most recent call last):
        ...
    ImportError: no_such_module is required but not installed: pip install 'paloma[plot]'
    """
    package = module.partition(".")[0]
    if find_spec(package) is None:
        raise ImportError(f"{package} is required but not installed: pip install 'paloma[{extra}]'")
    return import_module(module)
