"""Kafka's bytes against other implementations of the same protocol."""
