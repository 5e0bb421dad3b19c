"""Queues on a real broker: what is put is got, once and in order, whatever happens in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.produced_batch import check_batch
from barbicel.codecs.stroma_events import MarkInflight
from barbicel.gateway.broker.partition import Produced
from barbicel.gateway.kestrel.session import Session
from barbicel.kestrel_compat.names import BadQueueName
from barbicel.stroma import GroupKey
from tests.gateway.kafka.in_memory import batch
from tests.gateway.kestrel.in_memory_queues import InMemoryQueues, in_memory_queues


@pytest.fixture
def queues(tmp_path: Path) -> Iterator[InMemoryQueues]:
    with in_memory_queues(tmp_path / "data") as queues:
        yield queues


def produce(queues: InMemoryQueues, topic: str, data: bytes) -> None:
    """As Kafka's Produce does."""
    partition = queues.broker.topics.partition(topic, 0)
    assert partition is not None
    answers: list[Produced] = []
    partition.produce(check_batch(memoryview(bytearray(data)), 1 << 20), queues.broker.append, answers.append)
    queues.reactor.until(lambda: answers)
    assert answers[0].error_code == 0


def test_what_is_put_is_got_in_order_and_once(queues: InMemoryQueues) -> None:
    for number in range(20):
        assert queues.put("q", b"%d" % number)
    assert queues.get_all("q") == [b"%d" % number for number in range(20)]
    assert queues.get("q") is None


def test_items_that_are_put_in_one_turn_share_a_batch(queues: InMemoryQueues) -> None:
    queues.put("q", b"first")
    answers: list[bool | Exception] = []
    for number in range(50):
        queues.queues.put("q", b"%d" % number, 0, None, answers.append)
    queues.reactor.until(lambda: len(answers) == 50)
    partition = queues.broker.topics.partition("q", 0)
    assert partition is not None
    assert len(partition.read_tail(0, 1 << 20, at_least_one=True)) == 2
    assert len(queues.get_all("q")) == 51


@pytest.mark.parametrize("flags", [0, 1, 0xFFFFFFFF, -1])
def test_flags_and_data_come_back_as_they_were(queues: InMemoryQueues, flags: int) -> None:
    data = bytes(range(256)) * 300
    queues.put("q", data, flags=flags)
    asked = queues.ask("q")
    queues.reactor.until(lambda: asked.answers)
    assert asked.answers[0].flags == flags
    assert asked.data == data


@pytest.mark.parametrize("name", ["", "a.b", "a/b", "a~b", "a b", "+"])
def test_bad_names_are_refused(queues: InMemoryQueues, name: str) -> None:
    with pytest.raises(BadQueueName):
        queues.put(name, b"x")
    with pytest.raises(BadQueueName):
        queues.get(name)


# --- open reads -----------------------------------------------------------------------------------------


def test_an_open_read_is_nobody_elses_until_it_is_aborted(queues: InMemoryQueues) -> None:
    queues.put("q", b"a")
    queues.put("q", b"b")
    other = Session()
    assert queues.get("q", is_open=True) == b"a"
    assert queues.get("q", session=other) == b"b"
    assert queues.get("q", session=other) is None
    assert queues.abort("q")
    assert queues.get("q", session=other) == b"a"


def test_close_and_abort_take_the_oldest(queues: InMemoryQueues) -> None:
    for data in (b"a", b"b", b"c"):
        queues.put("q", data)
        assert queues.get("q", is_open=True) == data
    assert queues.session.open_count("q") == 3
    assert queues.close("q") == 1
    assert queues.abort("q")
    assert queues.session.open_count("q") == 1
    assert queues.get_all("q") == [b"b"]


def test_confirming_more_than_are_open_confirms_none(queues: InMemoryQueues) -> None:
    queues.put("q", b"a")
    queues.get("q", is_open=True)
    assert queues.close("q", 2) == 0
    assert queues.session.open_count("q") == 1
    assert queues.close("q", 1) == 1


def test_a_disconnect_returns_every_open_read_to_the_head(queues: InMemoryQueues) -> None:
    for data in (b"a", b"b", b"c"):
        queues.put("q", data)
    assert queues.get("q", is_open=True) == b"a"
    assert queues.get("q", is_open=True) == b"b"
    queues.disconnect()
    assert queues.get_all("q") == [b"a", b"b", b"c"]


def test_open_reads_come_back_after_a_restart_and_closed_ones_do_not(tmp_path: Path) -> None:
    with in_memory_queues(tmp_path / "data") as queues:
        for data in (b"a", b"b", b"c", b"d"):
            queues.put("q", data)
        for _ in range(3):
            queues.get("q", is_open=True)
        queues.close("q")
    with in_memory_queues(tmp_path / "data") as queues:
        assert queues.get_all("q") == [b"b", b"c", b"d"]
    with in_memory_queues(tmp_path / "data") as queues:
        assert queues.get("q") is None


def test_what_an_import_left_open_comes_when_its_time_is_over(tmp_path: Path) -> None:
    with in_memory_queues(tmp_path / "data") as queues:
        for data in (b"a", b"b", b"c"):
            queues.put("q", data)
        store = queues.broker.offsets.store
        store.record(GroupKey("q", 0, "kestrel"), [MarkInflight(0, queues.now_ms + 5000, 0)])
        store.commit()
    with in_memory_queues(tmp_path / "data") as queues:
        assert queues.get_all("q") == [b"b", b"c"]
        assert (queues.stats("q").items, queues.stats("q").open_transactions) == (0, 1)
        queues.flush("q")
        queues.upkeep.start()
        queues.advance(4000)
        assert queues.get("q") is None
        queues.advance(1000)
        assert queues.get("q") == b"a"
        queues.upkeep.stop()
    with in_memory_queues(tmp_path / "data") as queues:
        assert queues.get("q") is None


def test_an_open_read_times_out(queues: InMemoryQueues) -> None:
    queues.rules(q={"open_transaction_timeout_ms": 5000})
    queues.put("q", b"a")
    assert queues.get("q", is_open=True) == b"a"
    queues.advance(4999)
    assert queues.get("q", session=Session()) is None
    queues.advance(1)
    assert queues.session.open_count("q") == 0
    assert queues.close("q") == 0
    assert queues.get("q", session=Session()) == b"a"


def test_a_close_after_the_time_out_does_not_close_the_next_delivery(queues: InMemoryQueues) -> None:
    queues.rules(q={"open_transaction_timeout_ms": 5000})
    queues.put("q", b"a")
    queues.get("q", is_open=True)
    queues.advance(5000)
    other = Session()
    assert queues.get("q", is_open=True, session=other) == b"a"
    assert queues.close("q") == 0
    assert queues.close("q", session=other) == 1


def test_an_item_that_is_aborted_too_often_moves_to_the_errors(queues: InMemoryQueues) -> None:
    queues.rules(q={"delivery_limit": 3})
    queues.put("q", b"poison", flags=7)
    queues.put("q", b"good")
    for _ in range(3):
        assert queues.get("q", is_open=True) == b"poison"
        queues.abort("q")
    assert queues.get("q") == b"good"
    assert queues.await_item("q_errors") == b"poison"


def test_deliveries_are_counted_across_restarts(tmp_path: Path) -> None:
    for _ in range(3):
        with in_memory_queues(tmp_path / "data") as queues:
            queues.rules(q={"delivery_limit": 3})
            if not queues.queues.names():
                queues.put("q", b"poison")
            assert queues.get("q", is_open=True) == b"poison"
    with in_memory_queues(tmp_path / "data") as queues:
        queues.rules(q={"delivery_limit": 3})
        assert queues.get("q", is_open=True) is None
        assert queues.await_item("q_errors") == b"poison"


def test_a_full_queue_of_errors_takes_what_is_moved(queues: InMemoryQueues) -> None:
    queues.rules({"max_items": 1, "delivery_limit": 1})
    for data in (b"a", b"b"):
        assert queues.put("q", data)
        assert queues.get("q", is_open=True) == data
        queues.abort("q")
        assert queues.get("q", session=Session()) is None
    assert (queues.await_item("q_errors"), queues.await_item("q_errors")) == (b"a", b"b")


# --- waiting --------------------------------------------------------------------------------------------


def test_waiters_are_served_in_their_order(queues: InMemoryQueues) -> None:
    queues.get("q")
    first, second = queues.ask("q", timeout_ms=1000), queues.ask("q", timeout_ms=1000)
    queues.put("q", b"a")
    queues.reactor.until(lambda: first.answers)
    assert (first.data, second.answers) == (b"a", [])
    queues.put("q", b"b")
    queues.reactor.until(lambda: second.answers)
    assert second.data == b"b"


def test_a_wait_ends_without_an_item(queues: InMemoryQueues) -> None:
    queues.get("q")
    asked = queues.ask("q", timeout_ms=250)
    queues.advance(249)
    assert asked.answers == []
    queues.advance(1)
    assert asked.data is None


def test_a_dead_waiter_swallows_no_item(queues: InMemoryQueues) -> None:
    queues.get("q")
    dead, alive = queues.ask("q", timeout_ms=1000), queues.ask("q", timeout_ms=1000)
    assert dead.waiting is not None
    dead.waiting.cancel()
    queues.put("q", b"a")
    queues.reactor.until(lambda: alive.answers)
    assert (dead.answers, alive.data) == ([], b"a")


def test_an_aborted_item_goes_to_who_waits(queues: InMemoryQueues) -> None:
    queues.put("q", b"a")
    queues.get("q", is_open=True)
    asked = queues.ask("q", timeout_ms=1000, session=Session())
    queues.abort("q")
    queues.reactor.until(lambda: asked.answers)
    assert asked.data == b"a"


def test_peek_leaves_the_item_and_can_wait(queues: InMemoryQueues) -> None:
    assert queues.peek("q") is None
    asked = queues.ask("q", is_peek=True, timeout_ms=1000)
    queues.put("q", b"a")
    queues.reactor.until(lambda: asked.answers)
    assert (asked.data, queues.peek("q"), queues.get("q")) == (b"a", b"a", b"a")


# --- fanout ---------------------------------------------------------------------------------------------


def test_a_set_on_the_master_reaches_every_child_that_exists(queues: InMemoryQueues) -> None:
    queues.put("q", b"before")
    assert queues.get("q+a") is None
    queues.put("q", b"both")
    assert queues.get("q+b") is None
    queues.put("q", b"all")
    assert queues.get_all("q") == [b"before", b"both", b"all"]
    assert queues.get_all("q+a") == [b"both", b"all"]
    assert queues.get_all("q+b") == [b"all"]


def test_a_set_on_a_child_is_for_that_child_alone(queues: InMemoryQueues) -> None:
    for name in ("q", "q+a", "q+b"):
        queues.get(name)
    queues.put("q+a", b"mine")
    queues.put("q", b"everybodys")
    assert queues.get_all("q") == [b"everybodys"]
    assert queues.get_all("q+a") == [b"mine", b"everybodys"]
    assert queues.get_all("q+b") == [b"everybodys"]


def test_a_child_that_was_made_alone_has_no_master_queue(queues: InMemoryQueues) -> None:
    queues.put("q+a", b"mine")
    assert queues.queues.names() == ["q+a"]
    assert queues.get("q") is None
    assert queues.get("q+a") == b"mine"


def test_a_set_on_the_child_does_not_overtake_one_on_the_master(queues: InMemoryQueues) -> None:
    queues.get("q+a")
    answers: list[bool | Exception] = []
    queues.queues.put("q", b"first", 0, None, answers.append)
    queues.queues.put("q+a", b"second", 0, None, answers.append)
    queues.reactor.until(lambda: len(answers) == 2)
    assert queues.get_all("q+a") == [b"first", b"second"]


def test_fanout_copies_nothing(queues: InMemoryQueues) -> None:
    for child in range(10):
        queues.get(f"q+{child}")
    queues.put("q", b"x" * 100_000)
    for child in range(10):
        assert queues.get(f"q+{child}") == b"x" * 100_000
    log = queues.broker.topics.partition("q", 0)
    assert log is not None
    assert log.log.size_bytes < 110_000


def test_children_survive_a_restart(tmp_path: Path) -> None:
    with in_memory_queues(tmp_path / "data") as queues:
        queues.get("q+a")
        queues.put("q", b"x")
    with in_memory_queues(tmp_path / "data") as queues:
        assert queues.queues.names() == ["q", "q+a"]
        assert queues.get("q+a") == b"x"
        assert queues.get("q") == b"x"


def test_a_fanout_only_master_keeps_nothing(queues: InMemoryQueues) -> None:
    queues.rules(q={"fanout_only": True})
    assert queues.put("q", b"lost")
    queues.get("q+a")
    assert queues.put("q", b"x")
    assert queues.get("q") is None
    assert queues.get_all("q+a") == [b"x"]
    assert queues.queues.names() == ["q+a"]


# --- deleting and flushing ------------------------------------------------------------------------------


def test_deleting_the_master_leaves_its_children(queues: InMemoryQueues) -> None:
    queues.get("q+a")
    queues.put("q", b"x")
    queues.delete("q")
    assert queues.queues.names() == ["q+a"]
    assert queues.get("q") is None
    assert queues.get("q+a") == b"x"


def test_the_log_goes_with_its_last_line(queues: InMemoryQueues) -> None:
    queues.get("q+a")
    queues.put("q", b"x")
    queues.delete("q")
    assert queues.broker.topics.by_name("q") is not None
    queues.delete("q+a")
    assert queues.broker.topics.by_name("q") is None
    assert queues.queues.names() == []


def test_a_deleted_queue_starts_empty(queues: InMemoryQueues) -> None:
    queues.get("q+a")
    queues.put("q", b"old")
    queues.delete("q")
    queues.put("q", b"new")
    assert queues.get_all("q") == [b"new"]
    assert queues.get_all("q+a") == [b"old", b"new"]


def test_deleting_and_putting_at_once(queues: InMemoryQueues) -> None:
    queues.put("q", b"old")
    deleted: list[Exception | None] = []
    stored: list[bool | Exception] = []
    queues.queues.delete("q", deleted.append)
    queues.queues.put("q", b"new", 0, None, stored.append)
    queues.reactor.until(lambda: deleted and stored)
    assert (deleted, stored) == ([None], [True])
    assert queues.get_all("q") == [b"new"]


def test_deleting_what_is_not_there(queues: InMemoryQueues) -> None:
    queues.delete("q")
    queues.delete("q+a")
    assert queues.broker.topics.by_name("q") is None


def test_a_flush_leaves_open_reads(queues: InMemoryQueues) -> None:
    for data in (b"a", b"b", b"c"):
        queues.put("q", data)
    queues.get("q", is_open=True)
    queues.flush("q")
    assert queues.get("q", session=Session()) is None
    queues.abort("q")
    assert queues.get_all("q") == [b"a"]


def test_a_flush_survives_a_restart(tmp_path: Path) -> None:
    with in_memory_queues(tmp_path / "data") as queues:
        queues.put("q", b"a")
        queues.flush("q")
    with in_memory_queues(tmp_path / "data") as queues:
        assert queues.get("q") is None


def test_a_flush_makes_no_queue(queues: InMemoryQueues) -> None:
    queues.flush("q")
    assert queues.queues.names() == []


# --- expiry and limits ----------------------------------------------------------------------------------


def test_an_expired_item_is_not_given(queues: InMemoryQueues) -> None:
    queues.put("q", b"short", expiry_ms=queues.now_ms + 1000)
    queues.put("q", b"long")
    queues.advance(1000)
    assert queues.get("q") == b"long"
    assert queues.stats("q").expired_items == 1


def test_expired_items_move_to_another_queue_without_their_expiry(queues: InMemoryQueues) -> None:
    queues.rules(q={"max_age_ms": 1000, "expire_to_queue": "late"})
    queues.put("q", b"a", flags=3)
    queues.advance(1000)
    assert queues.flush_expired("q") == 1
    queues.advance(100_000)
    assert queues.await_item("late") == b"a"
    assert queues.get("q") is None


def test_the_sweep_expires_what_nobody_asks_for(queues: InMemoryQueues) -> None:
    queues.put("q", b"a", expiry_ms=queues.now_ms + 500)
    queues.upkeep.start()
    queues.advance(1000)
    assert queues.stats("q").expired_items == 1
    assert queues.stats("q").items == 0
    queues.upkeep.stop()


def test_a_full_queue_refuses(queues: InMemoryQueues) -> None:
    queues.rules(q={"max_items": 2}, s={"max_size_bytes": 10}, i={"max_item_size_bytes": 3})
    assert [queues.put("q", b"x") for _ in range(3)] == [True, True, False]
    queues.get("q")
    assert queues.put("q", b"x")
    assert [queues.put("s", b"12345") for _ in range(3)] == [True, True, False]
    assert (queues.put("i", b"123"), queues.put("i", b"1234")) == (True, False)


def test_a_full_queue_that_discards_keeps_the_newest(queues: InMemoryQueues) -> None:
    queues.rules(q={"max_items": 3, "discard_old_when_full": True})
    for number in range(10):
        assert queues.put("q", b"%d" % number)
    assert queues.get_all("q") == [b"7", b"8", b"9"]
    assert queues.stats("q").discarded == 7


def test_limits_hold_for_items_of_one_turn(queues: InMemoryQueues) -> None:
    queues.rules(q={"max_items": 3})
    queues.get("q")
    answers: list[bool | Exception] = []
    for _ in range(5):
        queues.queues.put("q", b"x", 0, None, answers.append)
    queues.reactor.until(lambda: len(answers) == 5)
    assert sorted(map(bool, answers)) == [False, False, True, True, True]


def test_a_full_child_goes_without_and_a_full_master_says_so(queues: InMemoryQueues) -> None:
    queues.rules(q={"max_items": 2}, qplusa={"max_items": 1})
    queues.get("q")
    queues.get("q+a")
    assert [queues.put("q", b"%d" % number) for number in range(3)] == [True, True, False]
    assert queues.get_all("q") == [b"0", b"1"]
    assert queues.get_all("q+a") == [b"0"]


def test_limits_are_known_after_a_restart(tmp_path: Path) -> None:
    with in_memory_queues(tmp_path / "data") as queues:
        for _ in range(3):
            queues.put("q", b"x")
        queues.get("q")
    with in_memory_queues(tmp_path / "data") as queues:
        queues.rules(q={"max_items": 3})
        assert [queues.put("q", b"x") for _ in range(2)] == [True, False]


# --- Kafka's side ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", list(Codec))
def test_records_of_kafkas_producers_are_given(queues: InMemoryQueues, codec: Codec) -> None:
    queues.get("q")
    produce(queues, "q", batch(b"a", b"b", b"c", codec=codec))
    assert queues.stats("q").items == 3
    assert queues.get_all("q") == [b"a", b"b", b"c"]
    assert queues.stats("q").items == 0


def test_a_topic_that_kafka_made_is_read_from_its_start(queues: InMemoryQueues) -> None:
    queues.reactor.result(queues.broker.topics.create("orders.v1", 1, {}))
    produce(queues, "orders.v1", batch(b"a", b"b"))
    assert queues.get_all("orders%2Ev1") == [b"a", b"b"]
    queues.delete("orders%2Ev1")
    assert queues.get_all("orders%2Ev1") == []
    produce(queues, "orders.v1", batch(b"c"))
    assert queues.get_all("orders%2Ev1") == [b"c"]


def test_a_queue_that_kafka_made_is_read_from_its_start(queues: InMemoryQueues) -> None:
    queues.reactor.result(queues.broker.topics.create("q", 1, {"kestrel.queue": "true"}))
    produce(queues, "q", batch(b"a"))
    assert queues.get_all("q") == [b"a"]


def test_kafka_wakes_a_waiter(queues: InMemoryQueues) -> None:
    queues.get("q")
    asked = queues.ask("q", timeout_ms=1000)
    produce(queues, "q", batch(b"a", codec=Codec.GZIP))
    queues.reactor.until(lambda: asked.answers)
    assert asked.data == b"a"


def test_a_topic_that_kafka_deletes_is_an_empty_queue(queues: InMemoryQueues) -> None:
    queues.put("q", b"a")
    queues.put("q", b"b")
    queues.get("q", is_open=True)
    asked = queues.ask("q", is_peek=True)
    assert asked.data == b"b"
    queues.reactor.result(queues.broker.topics.delete("q"))
    assert queues.close("q") == 0
    assert queues.get("q", session=Session()) is None
    assert queues.put("q", b"c")
    assert queues.get_all("q") == [b"c"]


def test_a_topic_of_several_partitions_is_no_queue(queues: InMemoryQueues) -> None:
    queues.reactor.result(queues.broker.topics.create("wide", 2, {}))
    with pytest.raises(Exception, match="2 partitions"):
        queues.get("wide")


# --- storage --------------------------------------------------------------------------------------------


def test_what_is_not_in_memory_is_read_from_the_disk(tmp_path: Path) -> None:
    with in_memory_queues(tmp_path / "data", tail_partition_bytes=0) as queues:
        for number in range(100):
            queues.put("q", b"%d" % number * 100)
        assert queues.get_all("q") == [b"%d" % number * 100 for number in range(100)]


def test_segments_are_given_back_when_every_group_is_past_them(queues: InMemoryQueues) -> None:
    queues.rules(q={"default_journal_size_bytes": 1 << 20})
    queues.get("q+a")
    for _ in range(40):
        queues.put("q", b"x" * 100_000)
    partition = queues.broker.topics.partition("q", 0)
    assert partition is not None
    queues.get_all("q")
    queues.upkeep.start()
    queues.advance(1000)
    queues.settle()
    assert partition.log.size_bytes > 4_000_000
    queues.get_all("q+a")
    queues.advance(1000)
    queues.reactor.until(lambda: partition.log.size_bytes < 1_500_000)
    queues.upkeep.stop()
    queues.put("q", b"after")
    assert queues.get("q") == queues.get("q+a") == b"after"
