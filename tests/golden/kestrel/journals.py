"""Golden queues: the files of a queue, step by step, and what Kestrel's users must find in it afterwards.

One for every opcode, every version's way of writing, and every oddity that is known from real directories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.golden.kestrel.writer import (
    Step,
    add,
    add_xid,
    addx,
    confirm,
    go_on,
    i32,
    i64,
    join,
    remove,
    reserve,
    save_xid,
    state_dump,
    unremove,
)

__all__ = ["GOLDEN", "MODIFIED_MS", "Golden"]

# Of every file.
MODIFIED_MS = 1_200_000_000_000


@dataclass(frozen=True)
class Golden:
    # File → its sound entries, in the order of replay.
    files: Mapping[str, tuple[Step, ...]]
    # What comes out first is first.
    items: list[bytes]
    # Of the items, those with an open read: they are the first ones.
    open: list[int] = field(default_factory=list)
    # (file, position, kind)
    doubts: list[tuple[str, int, str]] = field(default_factory=list)
    # File → bytes that are no entry, behind the sound ones.
    tails: Mapping[str, bytes] = field(default_factory=dict)
    # Files that lie in the directory and are not to be read.
    others: Mapping[str, bytes] = field(default_factory=dict)

    def contents(self) -> dict[str, bytes]:
        read = {name: join(steps) + self.tails.get(name, b"") for name, steps in self.files.items()}
        return {**read, **self.others}


def queue(*steps: Step) -> dict[str, tuple[Step, ...]]:
    return {"q": steps}


def size_of(*steps: Step) -> int:
    return len(join(steps))


YEAR_2011 = 1_300_000_000_000
A, B, C, D = addx(b"a"), addx(b"b"), addx(b"c"), addx(b"d")
ITEM = size_of(A)
HUGE = 2**31 - 1

OPCODES = {
    "0 add": Golden(queue(add(b"a"), add(b"b", 1_400_000_000)), [b"a", b"b"]),
    "1 remove": Golden(queue(A, B, remove()), [b"b"]),
    "2 addx": Golden(queue(A, addx(b"b", 5, 1_400_000_000_123)), [b"a", b"b"]),
    "3 remove tentative": Golden(queue(A, B, C, reserve(), reserve(), confirm(1)), [b"b", b"c"], [2]),
    "4 save xid": Golden(queue(save_xid(41), A, B, reserve(), reserve()), [b"a", b"b"], [42, 43]),
    "5 unremove": Golden(queue(A, B, C, reserve(7), remove(), unremove(7)), [b"a", b"c"]),
    "6 confirm remove": Golden(queue(A, B, reserve(7), reserve(8), confirm(7)), [b"b"], [8]),
    "7 add xid": Golden(queue(add_xid(9, b"a"), reserve(), B, reserve()), [b"b", b"a"], [1, 9]),
    "8 continue": Golden(queue(A, B, reserve(3), go_on(3, b"a2")), [b"b", b"a2"]),
    "8 state dump": Golden(
        {
            "q.100": (A, B, reserve(), state_dump(1, [add_xid(1, b"a")])),
            "q": (C, reserve(), confirm(1)),
        },
        [b"b", b"c"],
        [2],
    ),
    "9 remove tentative xid": Golden(queue(A, B, reserve(-5), reserve()), [b"a", b"b"], [-5, -4]),
}

VERSIONS = {
    "starling": Golden(queue(add(b"a"), add(b"b"), remove(), add(b"c", 1_199_145_600)), [b"b", b"c"]),
    "starling, then kestrel": Golden(queue(add(b"a"), add(b"b"), remove(), C, reserve()), [b"b", b"c"], [1]),
    "1.2 as it happened": Golden(
        queue(A, B, reserve(), C, reserve(), unremove(1), confirm(2), remove(), reserve(), unremove(3)),
        [b"c"],
    ),
    "1.2 after a roll": Golden(
        queue(
            *(add_xid(7, b"a"), reserve(), add_xid(5, b"b"), reserve()),
            save_xid(7),
            *(C, D),
            *(reserve(), confirm(5)),
        ),
        [b"a", b"c", b"d"],
        [7, 8],
    ),
    "the specification's roll": Golden(
        queue(save_xid(7), add_xid(5, b"b"), reserve(), add_xid(7, b"a"), reserve(), C, D, reserve()),
        [b"b", b"a", b"c", b"d"],
        [5, 7, 8],
    ),
    "1.3.0": Golden(queue(A, B, reserve(), go_on(1, b"a2"), reserve()), [b"b", b"a2"], [2]),
    "2.4": Golden(
        queue(
            A, B, C, reserve(1), reserve(2), confirm(1), unremove(2), remove(), reserve(3), go_on(3, b"c2")
        ),
        [b"c2"],
    ),
    "2.4 rotated": Golden(
        {"q.900": (A, B, reserve(1)), "q.1000": (C, confirm(1)), "q.20000": (remove(),), "q": (D,)},
        [b"c", b"d"],
    ),
    "2.4 without a current file": Golden({"q.900": (A, B), "q.1000": (remove(), C)}, [b"b", b"c"]),
    "2.4 rewritten": Golden(queue(A, reserve(4), B, reserve(2), C, D, confirm(4)), [b"b", b"c", b"d"], [2]),
    "unreleased, nothing open": Golden(
        {"q.100": (A, state_dump(9)), "q": (B, reserve())}, [b"a", b"b"], [10]
    ),
    "unreleased, as many open as a continue has bytes": Golden(
        {
            "q.100": (
                *(addx(b"%d" % number) for number in range(20)),
                *(reserve() for _ in range(20)),
                state_dump(20, [add_xid(1 + number, b"%d" % number) for number in range(20)]),
            ),
            "q": (*(confirm(1 + number) for number in range(19)), A),
        },
        [b"19", b"a"],
        [20],
    ),
    "a fanout child": Golden({"q+x.5": (A,), "q+x": (remove(), B)}, [b"b"]),
}

PACKS = {
    "a pack in the place of others": Golden(
        {"q.950.pack": (A, B), "q.951": (C,), "q": (remove(),)},
        [b"b", b"c"],
        doubts=[("q.904", 0, "superseded"), ("q.950", 0, "superseded")],
        others={"q.904": join([A, D]), "q.950": join([remove(), B])},
    ),
    "the newest of two packs": Golden(
        {"q.950.pack": (A,), "q": (B,)},
        [b"a", b"b"],
        doubts=[("q.940.pack", 0, "superseded"), ("q.950", 0, "superseded")],
        others={"q.940.pack": join([D]), "q.950": join([D])},
    ),
    "a temporary file": Golden(
        queue(A), [b"a"], doubts=[("q~~1234", 0, "temporary")], others={"q~~1234": join([B])}
    ),
    "strays": Golden(
        queue(A),
        [b"a"],
        doubts=[(name, 0, "stray") for name in (".gitignore", "q.bak", "q~", "r.-5")],
        others=dict.fromkeys((".gitignore", "q.bak", "q~", "r.-5"), b"x"),
    ),
    "more behind the number": Golden(
        {"q.9": (A,), "q.12.bak": (B,), "q": (C,)}, [b"a", b"b", b"c"], doubts=[("q.12.bak", 0, "odd-name")]
    ),
    "a copy beside its original": Golden(
        {"q.9": (A,), "q": (C,)},
        [b"a", b"c"],
        doubts=[("q.9.bak", 0, "stray")],
        others={"q.9.bak": join([A])},
    ),
    "empty items that later removes take": Golden(
        {"q.950.pack": (A, reserve(3), addx(b""), addx(b""), B), "q": (remove(), confirm(3), remove(), C)},
        [b"b", b"c"],
    ),
    "empty items that survive": Golden(
        {"q.950.pack": (addx(b""), addx(b""), addx(b""), B), "q": (remove(), reserve(1))},
        [b"", b"", b"b"],
        [1],
        doubts=[("q.950.pack", 21, "empty"), ("q.950.pack", 42, "empty")],
    ),
    "an empty item of starling": Golden(queue(add(b""), A), [b"", b"a"], doubts=[("q", 0, "empty")]),
    "a rewrite that was interrupted": Golden(
        {
            f"q.{YEAR_2011}": (addx(b"a", YEAR_2011 - 9000), addx(b"b", YEAR_2011 - 8000)),
            "q": (
                *(addx(b"gone", YEAR_2011 - 9500), addx(b"a", YEAR_2011 - 9000), remove()),
                *(addx(b"b", YEAR_2011 - 8000), addx(b"c", YEAR_2011 - 1000), addx(b"d", YEAR_2011 + 1)),
            ),
        },
        [b"b", b"gone", b"a", b"b", b"c", b"d"],
        doubts=[("q", 0, "duplicates"), ("q", 0, "more")],
    ),
}

ODDITIES = {
    "nothing at all": Golden(queue(), []),
    "surplus removes": Golden(
        queue(remove(), A, remove(), remove(), remove(), B),
        [b"b"],
        doubts=[("q", 0, "surplus"), ("q", 0, "more")],
    ),
    "surplus reserves": Golden(
        queue(reserve(), reserve(5), A, reserve()), [b"a"], [6], [("q", 0, "surplus"), ("q", 0, "more")]
    ),
    "an xid that is open": Golden(
        queue(A, B, C, reserve(5), reserve(5)), [b"a", b"b", b"c"], [5, 5], [("q", 3 * ITEM + 5, "reopened")]
    ),
    "an xid that is open, closed once": Golden(
        queue(A, B, reserve(5), reserve(5), confirm(5), confirm(5)),
        [b"a"],
        [5],
        [("q", 2 * ITEM + 5, "reopened")],
    ),
    "an xid that is open, returned": Golden(
        queue(A, B, C, reserve(5), reserve(5), unremove(5)),
        [b"a", b"b", b"c"],
        [5],
        [("q", 3 * ITEM + 5, "reopened")],
    ),
    "unknown xids": Golden(queue(A, unremove(5), confirm(6), go_on(7, b"b")), [b"a", b"b"]),
    "xids that wrap": Golden(
        queue(save_xid(2**31 - 2), A, B, reserve(), reserve()), [b"b", b"a"], [-(2**31), 2**31 - 1]
    ),
    "xids leave out 0": Golden(queue(save_xid(-2), A, B, reserve(), reserve()), [b"a", b"b"], [-1, 1]),
    "xids leave out what is open": Golden(
        queue(A, B, C, reserve(2), reserve(3), save_xid(1), reserve()), [b"a", b"b", b"c"], [2, 3, 4]
    ),
    "xids that start again": Golden(
        queue(A, B, reserve(1), confirm(1), reserve(1), confirm(1), C, reserve(1)), [b"c"], [1]
    ),
    "an xid's name is for the next entry only": Golden(
        queue(add_xid(9, b"a"), B, reserve()), [b"a", b"b"], [1]
    ),
    "an xid's name is gone with a remove": Golden(
        queue(A, add_xid(9, b"b"), remove(), reserve()), [b"b"], [1]
    ),
    "an xid's name is not the last xid": Golden(
        queue(save_xid(4), add_xid(2, b"a"), reserve(), B, reserve()), [b"a", b"b"], [2, 5]
    ),
    "expired long ago": Golden(queue(addx(b"a", 1000, 2000), addx(b"b", 1000, -1), remove()), [b"b"]),
    "a state dump with an unknown read": Golden(
        {"q.100": (A, state_dump(7, [add_xid(7, b"x")])), "q": (B,)},
        [b"a", b"b"],
        doubts=[("q.100", ITEM + 9, "unknown-open")],
    ),
    "something behind a state dump": Golden(
        {"q.100": (A, state_dump(0)), "q": (B,)},
        [b"a", b"b"],
        doubts=[("q.100", ITEM, "damaged")],
        tails={"q.100": b"\x01"},
    ),
    "more reads than a state dump says": Golden(
        {"q.100": (A, reserve(), state_dump(1, [add_xid(1, b"a")])), "q": (B,)},
        [b"a", b"b"],
        [1],
        doubts=[("q.100", ITEM + 1 + 9 + (ITEM + 4) + 1, "damaged")],
        tails={"q.100": join([add_xid(1, b"a"), reserve()])},
    ),
    "something behind a state dump's reads": Golden(
        {"q.100": (A, reserve(), state_dump(1, [add_xid(1, b"a")])), "q": (B,)},
        [b"a", b"b"],
        [1],
        doubts=[("q.100", ITEM + 1 + 9 + (ITEM + 4) + 1, "damaged")],
        tails={"q.100": b"\x01"},
    ),
}

DAMAGE = {
    name: Golden(
        {"q.100": (A, B), "q": (remove(), C)},
        [b"b", b"c"],
        doubts=[("q.100", 2 * ITEM, kind)],
        tails={"q.100": tail},
    )
    for name, kind, tail in [
        ("zeros to the end", "zeros", bytes(4096)),
        ("five zeros", "zeros", bytes(5)),
        ("four zeros", "truncated", bytes(4)),
        ("an opcode that there is not", "damaged", b"\x0a" + A.raw),
        ("opcode 255", "damaged", b"\xff"),
        ("an add that is too small", "damaged", b"\x00" + i32(3) + b"abc"),
        ("an addx that is too small", "damaged", b"\x02" + i32(15) + bytes(15)),
        ("an add xid that is too small", "damaged", b"\x07" + i32(1) + i32(15) + bytes(15)),
        ("a continue that is too small", "damaged", b"\x08" + i32(1) + i32(15) + bytes(15)),
        ("a negative add", "damaged", b"\x00" + i32(-1) + bytes(40)),
        ("a negative addx", "damaged", b"\x02" + i32(-(2**31)) + bytes(40)),
        ("a negative add xid", "damaged", b"\x07" + i32(1) + i32(-20) + bytes(40)),
        ("a negative continue", "damaged", b"\x08" + i32(1) + i32(-20) + bytes(40)),
        ("a huge add", "truncated", b"\x00" + i32(HUGE) + bytes(40)),
        ("a huge addx", "truncated", b"\x02" + i32(HUGE) + i64(YEAR_2011) + i64(0) + bytes(40)),
        ("a huge add xid", "truncated", b"\x07" + i32(1) + i32(HUGE) + i64(YEAR_2011) + i64(0) + bytes(40)),
        ("a huge continue", "truncated", b"\x08" + i32(1) + i32(HUGE) + i64(YEAR_2011) + i64(0) + bytes(40)),
        ("an addx without its last byte", "truncated", addx(b"xyz").raw[:-1]),
    ]
}

GOLDEN: dict[str, Golden] = {**OPCODES, **VERSIONS, **PACKS, **ODDITIES, **DAMAGE}
