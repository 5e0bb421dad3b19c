"""Rates out of totals."""

from __future__ import annotations

from barbicel.gateway.admin.history import ALL, MAX_TOPICS, SAMPLES, History, Rates, Totals


def test_a_rate_is_the_difference_of_two_samples() -> None:
    history = History()
    assert history.rates() == Rates()
    history.note(1000, {"a": Totals(0, 0, 0), "b": Totals(5, 50, 500)})
    assert history.rates("a") == Rates()
    history.note(6000, {"a": Totals(10, 1000, 0), "b": Totals(5, 50, 1000)})
    assert history.rates("a") == Rates(2.0, 200.0, 0.0)
    assert history.rates("b") == Rates(0.0, 0.0, 100.0)
    assert history.rates() == Rates(2.0, 200.0, 100.0)
    assert history.series("a") == [(6000, Rates(2.0, 200.0, 0.0))]


def test_only_so_much_is_kept() -> None:
    history = History()
    for number in range(SAMPLES * 2):
        history.note(number * 1000, {"a": Totals(number)})
    assert len(history.series("a")) == len(history.series()) == SAMPLES - 1


def test_a_topic_that_is_gone_is_forgotten_and_one_that_is_made_anew_begins_anew() -> None:
    history = History()
    history.note(1000, {"a": Totals(100), "b": Totals(1)})
    history.note(2000, {"b": Totals(2)})
    assert history.series("a") == []
    assert history.rates() == Rates()
    history.note(3000, {"a": Totals(1), "b": Totals(2)})
    history.note(4000, {"a": Totals(0), "b": Totals(3)})
    assert history.rates("a") == Rates()
    assert history.rates("b") == Rates(2 / 3)


def test_of_very_many_topics_only_the_sum_is_kept() -> None:
    history = History()
    for time_ms, total in ((1000, 1), (2000, 2)):
        history.note(time_ms, {str(number): Totals(total) for number in range(MAX_TOPICS + 1)})
    assert history.series("7") == []
    assert history.rates(ALL) == Rates(float(MAX_TOPICS + 1))


def test_nothing_is_nothing() -> None:
    history = History()
    history.note(1000, {})
    history.note(2000, {})
    assert history.series() == [(2000, Rates())]
