"""The command line, a file a verb. It only asks, prints and translates errors; the work is done elsewhere."""

__all__: list[str] = []
