"""The checker finds each anomaly in a history that was made by hand, and nothing in a good one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.checker import CHECKS, Facts, check
from tests.chaos.history import Commit, Failure, History, Position, Seen, Stream, Value
from tests.chaos.values import decode_value, encode_value

STRICT, LOOSE = Stream("strict", 0), Stream("loose", 0)
A, B, C = (Value(STRICT, sequence) for sequence in range(3))
X, REFUSED = Value(LOOSE, 0), Value(LOOSE, 1)


def good_history() -> History:
    """Three values of an idempotent producer; one of another, stored twice, and one that was refused."""
    history = History()
    history.sent.update({STRICT: 3, LOOSE: 2})
    history.may_repeat.add("loose")
    history.acked[STRICT].update({0: 0, 1: 2, 2: 4})
    history.acked[LOOSE].update({0: 3})
    history.failed[LOOSE][1] = Failure("too large", is_certain=True)
    log = [Seen(offset, value) for offset, value in enumerate((A, X, B, X, C))]
    history.log[0] = list(log)
    history.ends[0] = len(log)
    history.readers["reader"][0] = list(log)
    history.members["member, first"][0] = log[:3]
    history.members["member, second"][0] = log[2:]
    history.commits[0] = [Commit(10, 11, 2), Commit(14, None, 3), Commit(20, 24, 5), Commit(21, 25, 4)]
    history.positions[0] = [Position(5, 6, 0), Position(12, 13, 2), Position(15, 16, 3), Position(26, 27, 5)]
    return history


def kinds(history: History) -> set[str]:
    return {anomaly.kind for anomaly in check(history)}


def test_a_good_history_has_no_anomaly() -> None:
    assert check(good_history()) == []


def test_nothing_at_all_is_no_anomaly() -> None:
    assert check(History()) == []


# --- each anomaly, alone where it can be alone ----------------------------------------------------------


def _everywhere(history: History, records: list[Seen]) -> None:
    history.log[0] = list(records)
    history.readers["reader"][0] = list(records)
    history.ends[0] = len(records)
    history.members.clear()
    history.commits.clear()
    history.positions.clear()


def acked_and_gone(history: History) -> None:
    _everywhere(history, [Seen(offset, value) for offset, value in enumerate((A, X, B, X))])


def acked_at_another_offset(history: History) -> None:
    history.acked[STRICT][1] = 1


def stored_twice(history: History) -> None:
    _everywhere(history, [Seen(offset, value) for offset, value in enumerate((A, X, B, X, C, C))])


def in_another_order(history: History) -> None:
    history.acked[STRICT].update({1: 4, 2: 2})
    _everywhere(history, [Seen(offset, value) for offset, value in enumerate((A, X, C, X, B))])


def refused_for_no_reason(history: History) -> None:
    history.sent[STRICT] = 4
    history.failed[STRICT][3] = Failure("OUT_OF_ORDER_SEQUENCE_NUMBER", is_certain=False)


def never_answered(history: History) -> None:
    history.sent[STRICT] = 5


def refused_and_read(history: History) -> None:
    _everywhere(history, [Seen(offset, value) for offset, value in enumerate((A, X, B, X, C, REFUSED))])


def never_sent(history: History) -> None:
    never = Value(STRICT, 3)
    _everywhere(history, [Seen(offset, value) for offset, value in enumerate((A, X, B, X, C, never))])


def no_value_at_all(history: History) -> None:
    _everywhere(history, [Seen(offset, value) for offset, value in enumerate((A, X, B, X, C, None))])


def of_another_partition(history: History) -> None:
    other = Value(Stream("strict", 1), 0)
    history.sent[other.stream] = 1
    history.failed[other.stream][0] = Failure("lost on its way", is_certain=True)
    _everywhere(history, [Seen(offset, value) for offset, value in enumerate((A, X, B, X, C, other))])


def two_values_at_one_offset(history: History) -> None:
    history.readers["reader"][0][3] = Seen(3, B)


def two_readers_disagree(history: History) -> None:
    """Both have read what the log had lost at the end."""
    history.readers["reader"][0].append(Seen(5, A))
    history.readers["other"][0] = [*history.readers["reader"][0][:5], Seen(5, B)]


def read_and_gone(history: History) -> None:
    history.readers["reader"][0].append(Seen(5, X))


def polled_backwards(history: History) -> None:
    history.readers["reader"][0].insert(3, Seen(1, X))


def polled_twice(history: History) -> None:
    history.readers["reader"][0].insert(3, Seen(2, B))


def an_offset_left_out(history: History) -> None:
    del history.readers["reader"][0][2]


def the_first_offset_left_out(history: History) -> None:
    del history.readers["reader"][0][0]


def a_hole_in_the_log(history: History) -> None:
    _everywhere(history, [Seen(0, A), Seen(2, B), Seen(3, X), Seen(4, C)])
    history.ends[0] = 5


def a_reader_that_stopped(history: History) -> None:
    history.readers["reader"][0].pop()


def a_reader_that_got_nothing(history: History) -> None:
    history.readers["reader"].clear()


def a_group_that_missed_one(history: History) -> None:
    history.members["member, first"][0] = history.members["member, first"][0][:1]
    history.members["member, second"][0] = history.members["member, second"][0][1:]


def a_position_before_the_commit(history: History) -> None:
    history.positions[0].append(Position(28, 29, 4))


def no_position_after_the_commit(history: History) -> None:
    history.positions[0].append(Position(28, 29, 0))


def a_position_of_a_commit_that_came_too_late(history: History) -> None:
    history.commits[0].append(Commit(22, None, 3))
    history.positions[0].append(Position(28, 29, 3))


def a_position_nobody_committed(history: History) -> None:
    history.positions[0].append(Position(12, 13, 4))


def a_commit_below_an_earlier_one(history: History) -> None:
    history.commits[0].append(Commit(28, 29, 4))


def a_traceback(history: History) -> None:
    history.troubles.append("Traceback")


ANOMALIES: tuple[tuple[Callable[[History], None], set[str]], ...] = (
    (acked_and_gone, {"lost-write"}),
    (acked_at_another_offset, {"misplaced-write"}),
    (stored_twice, {"duplicate"}),
    (in_another_order, {"reordering"}),
    (refused_for_no_reason, {"refused-write"}),
    (never_answered, {"unanswered-write"}),
    (refused_and_read, {"aborted-read"}),
    (never_sent, {"foreign-read"}),
    (no_value_at_all, {"foreign-read"}),
    (of_another_partition, {"foreign-read", "aborted-read"}),
    (two_values_at_one_offset, {"inconsistent-offset"}),
    (two_readers_disagree, {"inconsistent-offset", "vanished-read", "unseen"}),
    (read_and_gone, {"vanished-read", "unseen"}),
    (polled_backwards, {"nonmonotonic-poll", "poll-skip"}),
    (polled_twice, {"nonmonotonic-poll"}),
    (an_offset_left_out, {"poll-skip"}),
    (the_first_offset_left_out, {"poll-skip"}),
    (a_hole_in_the_log, {"poll-skip"}),
    (a_reader_that_stopped, {"unseen"}),
    (a_reader_that_got_nothing, {"unseen"}),
    (a_group_that_missed_one, {"unseen-by-group"}),
    (a_position_before_the_commit, {"lost-commit"}),
    (no_position_after_the_commit, {"lost-commit"}),
    (a_position_of_a_commit_that_came_too_late, {"stale-commit"}),
    (a_position_nobody_committed, {"invented-commit"}),
    (a_commit_below_an_earlier_one, {"backward-commit"}),
    (a_traceback, {"trouble"}),
)


@pytest.mark.parametrize(("change", "expected"), ANOMALIES, ids=[change.__name__ for change, _ in ANOMALIES])
def test_an_anomaly_is_found(change: Callable[[History], None], expected: set[str]) -> None:
    history = good_history()
    change(history)
    assert kinds(history) == expected


def test_every_check_has_a_history_that_it_finds_fault_with() -> None:
    """Else a check that finds nothing ever would look like a gateway without faults."""
    silent = set(CHECKS)
    for change, _ in ANOMALIES:
        history = good_history()
        change(history)
        silent -= {find for find in silent if any(find(Facts(history)))}
    assert not silent


def test_an_anomaly_says_where_and_what() -> None:
    history = good_history()
    acked_and_gone(history)
    assert [str(anomaly) for anomaly in check(history)] == [
        "lost-write in partition 0: strict/2 was acknowledged at 4, where None is now"
    ]


# --- values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [None, 0, 10, 5000])
@pytest.mark.parametrize("sequence", [0, 1, 12345])
def test_a_value_comes_back(sequence: int, size: int | None) -> None:
    value = Value(STRICT, sequence)
    assert decode_value(encode_value(value, size)) == value


@pytest.mark.parametrize(
    "data", [None, b"", b"strict 0 1", b"strict 0 x 60 ", b"strict 0 1 " + b"9" * 5000 + b" "]
)
def test_what_is_no_value_is_none(data: bytes | None) -> None:
    assert decode_value(data) is None


def test_a_changed_byte_is_no_value_of_the_same_name() -> None:
    """In the part that says who sent it, it may be another value, which was never sent."""
    data = encode_value(A)
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        assert decode_value(bytes(changed)) != A
    assert decode_value(data[:-1]) is None
    assert decode_value(data + b" ") is None
