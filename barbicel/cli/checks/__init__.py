"""What `barbicel doctor` looks at: a file for each thing, and every finding with what to do about it."""

__all__: list[str] = []
