"""The jobs: one module for each. The command line (`barbicel pipeline`) gives them their options."""

__all__: list[str] = []
