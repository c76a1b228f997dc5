"""Ratios measured in one run against twins and peers that really run: ``make bench``."""
