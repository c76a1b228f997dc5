"""Dense matrices on a torch device, such as a GPU."""

from .space import DeviceSpace, OnDevice, on_device

__all__ = ["DeviceSpace", "OnDevice", "on_device"]
