"""Amounts for people who glance: 12.3 MB, 4.5k, 2 h 5 m. What is to be compared has all digits instead."""

from __future__ import annotations

__all__ = ["bytes_text", "count_text", "duration_text"]

_BYTES = ("B", "kB", "MB", "GB", "TB", "PB")
_COUNTS = ("", "k", "M", "G", "T")
THOUSAND = 1000


def bytes_text(size: float | None) -> str:
    return "-" if size is None else _scaled(size, _BYTES, " ")


def count_text(number: float | None) -> str:
    return "-" if number is None else _scaled(number, _COUNTS, "")


def _scaled(number: float, units: tuple[str, ...], space: str) -> str:
    for unit in units:
        # What would be rounded up to a thousand is one of the next unit.
        if number < THOUSAND - 0.5 or unit == units[-1]:
            break
        number /= THOUSAND
    digits = 0 if number >= 100 or number == int(number) else 1
    return f"{number:.{digits}f}{space if unit else ''}{unit}"


def duration_text(seconds: float) -> str:
    """The two largest units."""
    whole = int(seconds)
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    first = next((index for index, (number, _) in enumerate(parts) if number), len(parts) - 1)
    return " ".join(f"{number} {unit}" for number, unit in parts[first : first + 2])
