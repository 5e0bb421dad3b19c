"""The broker: topics, groups and producers, whatever protocol speaks of them."""

__all__: list[str] = []
