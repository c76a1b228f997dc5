"""Exhaustive search: tiles of one matrix product, items under local metrics, Euclidean neighbors, votes."""
