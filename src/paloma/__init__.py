"""Online passive-aggressive learning of local metrics and similarities."""

__version__ = "0.1.0"
