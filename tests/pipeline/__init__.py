"""Spark against a real gateway, in one session a worker."""
