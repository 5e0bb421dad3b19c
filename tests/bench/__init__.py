"""The benchmarks run, whatever their figures are."""
