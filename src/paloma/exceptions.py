"""The exceptions that paloma adds to Python's own."""


class ModelFileError(ValueError):
    """A model file is damaged, was not written by paloma, or needs a different version of paloma.

    Examples
    --------
    >>> issubclass(ModelFileError, ValueError)
    True
    """


class MissingModelFileError(ModelFileError, FileNotFoundError):
    """There is no model file of this name; a `FileNotFoundError` as well.

    Examples
    --------
    >>> issubclass(MissingModelFileError, FileNotFoundError)
    True
    """


class ServiceError(RuntimeError):
    """A service cannot start: its files are in use, its address needs a token, or its database is not safe.

    Examples
    --------
    >>> issubclass(ServiceError, RuntimeError)
    True
    """
