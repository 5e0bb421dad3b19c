"""Kafka's protocol as bytes: frames' headers, messages, record batches."""

__all__: list[str] = []
