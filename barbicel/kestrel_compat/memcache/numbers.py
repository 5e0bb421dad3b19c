"""Numbers as Kestrel reads them: ASCII digits with a sign at most, in 32 bits.

Python's int() would also take spaces, underscores and as many digits as there are.
"""

from __future__ import annotations

__all__ = ["MAX_I32", "MIN_I32", "parse_number"]

MIN_I32 = -(2**31)
MAX_I32 = 2**31 - 1

# Fewer digits than this are never too much.
_SAFE_DIGITS = 10
# More digits than any number here needs, zeros in front included.
_MAX_DIGITS = 19
_SIGNS = (b"-", b"+")


def parse_number(token: bytes, highest: int = MAX_I32) -> int | None:
    """None where it is no number from -2^31 to `highest`."""
    if len(token) < _SAFE_DIGITS and token.isdigit():
        return int(token)
    digits = token[1:] if token[:1] in _SIGNS else token
    if len(digits) > _MAX_DIGITS or not digits.isdigit():
        return None
    number = int(token)
    return number if MIN_I32 <= number <= highest else None
