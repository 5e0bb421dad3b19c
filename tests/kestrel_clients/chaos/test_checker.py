"""The checker finds each anomaly in a history that was made by hand, and nothing in a good one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kestrel_clients.chaos.checker import CHECKS, SYNCED_S, check
from tests.kestrel_clients.chaos.history import Delivery, History

LINE, CHILD = "q", "q+child"
KILL = 10.0


def closed(line: str, item: bytes, given: float, answered: float | None) -> Delivery:
    return Delivery(line, item, "somebody", given, given + 0.1, given + 0.1, answered)


def good_history() -> History:
    """One kill. `a` is read in peace; `b` was aborted, and closed by another; `c` was open when the kill
    came; the close of `d` was not answered; `e` was never answered STORED."""
    history = History(kills=[KILL], closed={LINE: set(), CHILD: set()})
    items = [b"a", b"b", b"c", b"d", b"e"]
    history.sent = dict.fromkeys(items, 1.0)
    history.stored = dict.fromkeys(items[:-1], 1.5)
    for line in history.closed:
        history.deliveries += [
            closed(line, b"a", 2.0, 2.2),
            Delivery(line, b"b", "somebody", 3.0, ended=3.1),
            closed(line, b"b", 3.2, 3.5),
            Delivery(line, b"c", "somebody", 9.0, ended=KILL + 5),
            closed(line, b"c", KILL + 1, KILL + 2),
            closed(line, b"d", 9.5, None),
            closed(line, b"d", KILL + 1, KILL + 2),
        ]
    return history


def find(history: History, line: str, item: bytes, number: int = 0) -> Delivery:
    return [each for each in history.deliveries if (each.line, each.item) == (line, item)][number]


def lose_it(history: History) -> None:
    history.stored[b"e"] = 1.5
    history.deliveries.append(closed(LINE, b"e", 4.0, 4.2))


def lose_what_was_open(history: History) -> None:
    history.deliveries.remove(find(history, LINE, b"c", 1))


def bring_it_back(history: History) -> None:
    history.deliveries.append(closed(LINE, b"a", 5.0, 5.2))


def bring_it_back_by_the_kill(history: History) -> None:
    find(history, CHILD, b"d").confirmed = KILL - 2 * SYNCED_S


def bring_back_what_was_just_confirmed(history: History) -> None:
    find(history, CHILD, b"d").confirmed = KILL - SYNCED_S / 2


def hand_out_twice(history: History) -> None:
    find(history, LINE, b"b").ended = 3.3


def hand_out_what_nobody_has_sent(history: History) -> None:
    history.deliveries.append(closed(LINE, b"?", 4.0, 4.2))


def complain(history: History) -> None:
    history.troubles.append("it does not feel well")


BAD: dict[Callable[[History], None], str] = {
    lose_it: "lost",
    lose_what_was_open: "lost",
    bring_it_back: "synced-came-back",
    bring_it_back_by_the_kill: "synced-came-back",
    bring_back_what_was_just_confirmed: "confirmed-came-back",
    hand_out_twice: "handed-out-twice",
    hand_out_what_nobody_has_sent: "foreign",
    complain: "trouble",
}


def test_a_good_history_has_no_anomaly() -> None:
    assert check(good_history()) == []
    assert check(History()) == []


@pytest.mark.parametrize("spoil", BAD, ids=lambda spoil: spoil.__name__)
def test_each_anomaly_is_found_alone(spoil: Callable[[History], None]) -> None:
    history = good_history()
    spoil(history)
    assert [anomaly.kind for anomaly in check(history)] == [BAD[spoil]]


def test_no_check_is_left_out() -> None:
    assert len(CHECKS) == len(
        {kind.removeprefix("synced-").removeprefix("confirmed-") for kind in BAD.values()}
    )
