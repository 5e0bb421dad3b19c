"""Pieces as parts, and the etag that S3 will give them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.disk import Bytes
from barbicel.tier.parts import Parts


@given(st.lists(st.binary(max_size=50)), st.integers(1, 20))
def test_parts_have_one_size_and_hold_every_byte_in_order(pieces: list[bytes], part_bytes: int) -> None:
    parts = Parts(iter(pieces), part_bytes)
    found = list(parts)
    content = b"".join(pieces)
    assert b"".join(found) == content
    assert all(len(part) == part_bytes for part in found[:-1])
    assert all(0 < len(part) <= part_bytes for part in found)
    assert (parts.size, parts.md5_hex) == (len(content), hashlib.md5(content).hexdigest())
    digests = b"".join(hashlib.md5(part).digest() for part in found)
    assert parts.etag == f"{hashlib.md5(digests).hexdigest()}-{len(found)}"


def test_an_error_of_the_pieces_is_passed_on_and_kept() -> None:
    def pieces() -> Iterator[Bytes]:
        yield b"12345"
        raise KeyError("of the pieces")

    parts = Parts(pieces(), 4)
    assert next(parts) == b"1234"
    assert parts.error is None
    with pytest.raises(KeyError) as caught:
        next(parts)
    assert parts.error is caught.value
