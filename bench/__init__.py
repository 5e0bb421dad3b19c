"""Benchmarks: `python -m bench [part]`. Every ratio is against a peer that was measured in the same run."""
