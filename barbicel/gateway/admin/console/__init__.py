"""The console: pages for people, made of the same views as the JSON API."""

__all__: list[str] = []
