"""Dense matrices on a torch device, such as a GPU."""

from .space import DeviceSpace, OnDevice

__all__ = ["DeviceSpace", "OnDevice"]
