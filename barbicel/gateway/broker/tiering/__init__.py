"""The tier in the server: which partitions have one, the threads that work for it, what is told of it."""

__all__: list[str] = []
