"""Compiled loops: arrays in, arrays out, no checks, no classes. The only place that imports numba."""
