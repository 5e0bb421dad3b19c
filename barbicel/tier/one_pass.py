"""A sealed segment's batches as a `.kfs` object, in one pass over them: the header is known in the end.

For stores that write the first bytes last. Nothing is held but the batches that are just written, and every
one of them was looked at before: a damaged batch is never packed.
docs/formats/kfs.md has the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from barbicel.clock import Clock
from barbicel.disk import Bytes
from barbicel.tier.pace import Pace
from barbicel.tier.packing import BACKGROUND_SHARE, Packed, Tally, grouped

__all__ = ["OnePass", "PlainBatches"]


class PlainBatches(Exception):
    """There is something to compress, and so another object to write than this one."""


class OnePass:
    """All of an object behind its header, a few batches at a time; `packed` once all of them were taken.

    See `Tally` for what it raises, and PlainBatches if it may not have any.
    """

    def __init__(
        self,
        batches: Iterable[Bytes],
        clock: Clock,
        *,
        may_be_plain: bool,
        share: float = BACKGROUND_SHARE,
    ) -> None:
        self._batches = batches
        self._clock = clock
        self._may_be_plain = may_be_plain
        # A write lets go of the interpreter every few batches: only a reactor that is busy needs more.
        self._pace = Pace(share, idle_share=1)
        self._packed: Packed | None = None

    @property
    def packed(self) -> Packed:
        if self._packed is None:
            raise ValueError("what an object has is known once all of it was taken")
        return self._packed

    def __iter__(self) -> Iterator[Sequence[Bytes]]:
        tally = Tally()
        for group in grouped(self._batches):
            tally.add(group)
            if tally.has_plain_batches and not self._may_be_plain:
                raise PlainBatches
            yield group
            self._pace.rest()
        self._packed = tally.pack(self._clock())
        yield [self._packed.footer]
