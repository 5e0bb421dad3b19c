"""Consumption: names, state, files and what a crash leaves of them."""
