"""The JSON API, a file for each thing that can be asked about. docs/admin_api.md describes it."""

__all__: list[str] = []
