"""Compiled loops: arrays in, arrays out, no checks, in the groups of `groups`. The only place that imports numba."""
