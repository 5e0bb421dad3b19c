"""The HTTP listener for operators: console, JSON API, metrics and health, beside the clients' protocols."""

__all__: list[str] = []
