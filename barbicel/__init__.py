"""Barbicel: one durable log that Kafka and Kestrel clients share."""

__all__ = ["__version__"]

__version__ = "0.1.0"
