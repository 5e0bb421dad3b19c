"""Queues in the file of settings: their names are no dotted names, and mistakes are all told at once."""

from __future__ import annotations

from typing import Any

import pytest

from barbicel.config import Config, ConfigError, load_config
from barbicel.config.queue_names import wire_name
from barbicel.config.queue_tables import QueueTables
from tests.support.fault_disk import FaultDisk

FILE = "/etc/barbicel.toml"


def load(text: str) -> Config:
    disk = FaultDisk()
    disk.put(FILE, text.encode())
    return load_config(disk, path=FILE)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text)
    return caught.value.problems


def test_without_tables_there_is_nothing() -> None:
    for text in ("", "[kestrel]", "[kestrel]\nport = 1"):
        assert load(text).kestrel_queues == QueueTables() == Config().kestrel_queues


@pytest.mark.parametrize(
    "text",
    [
        '[kestrel]\nport = 7\n[kestrel.default]\nmaxItems = 3\n[kestrel.queues."a+b:c\\"%"]\nmaxAge = 5',
        'kestrel.port = 7\nkestrel.default.maxItems = 3\nkestrel.queues."a+b:c\\"%".maxAge = 5',
        '[kestrel]\nport = 7\ndefault = {maxItems = 3}\nqueues = {\'a+b:c"%\' = {maxAge = "5 ms"}}',
        '"kestrel.port" = 7\n[kestrel.default]\nmaxItems = 3\n[kestrel.queues.\'a+b:c"%\']\nmaxAge = 5',
    ],
)
def test_tables_stand_beside_settings_of_the_server(text: str) -> None:
    config = load(text)
    assert config.kestrel_port == 7
    assert config.kestrel_queues.default == {"max_items": 3}
    assert config.kestrel_queues.queues == {'a+b:c"%': {"max_age_ms": 5}}


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ("maxItems = 5", "max_items", 5),
        ('maxItems = "none"', "max_items", None),
        ("maxSize = 5", "max_size_bytes", 5),
        ('maxSize = "16 MiB"', "max_size_bytes", 16 << 20),
        ('maxSize = "16MB"', "max_size_bytes", 16 << 20),
        ('maxItemSize = " 2 KiB "', "max_item_size_bytes", 2048),
        ('maxItemSize = "7"', "max_item_size_bytes", 7),
        ("discardOldWhenFull = true", "discard_old_when_full", True),
        ('maxAge = "30 s"', "max_age_ms", 30_000),
        ('maxAge = "2 min"', "max_age_ms", 120_000),
        ('maxQueueAge = "1h"', "max_queue_age_ms", 3_600_000),
        ('openTransactionTimeout = "1 d"', "open_transaction_timeout_ms", 86_400_000),
        ('expireToQueue = "old"', "expire_to_queue", "old"),
        ('expireToQueue = "é"', "expire_to_queue", "\xc3\xa9"),
        ("maxExpireSweep = 10", "max_expire_sweep", 10),
        ("syncJournal = 0", "sync_journal_ms", 0),
        ('syncJournal = "100 ms"', "sync_journal_ms", 100),
        ("deliveryLimit = 0", "delivery_limit", 0),
        ('defaultJournalSize = "1 MiB"', "default_journal_size_bytes", 1 << 20),
    ],
)
def test_values(given: str, field: str, value: Any) -> None:
    assert load(f"[kestrel.default]\n{given}").kestrel_queues.default == {field: value}


REFUSED = {
    "maxItems": ["0", "-1", '"many"', "true", "1.5", "[1]", "{}", "2000-01-01"],
    "maxSize": ['"5 MiBs"', '"5 s"', '"-5"', '"1.5 GiB"', "0"],
    "maxAge": ['"30 S"', '""', '"9999999999999999999 d"', '"\u0663 s"', "0"],
    "fanoutOnly": ["1", '"true"', '"none"'],
    "deliveryLimit": ['"5"', "-1"],
    "expireToQueue": ['"a.b"', '""', "5", '"+"'],
    "defaultJournalSize": ["1000", '"none"', '"2 GiB"'],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in REFUSED for value in REFUSED[name]])
def test_values_that_are_refused(name: str, value: str) -> None:
    (problem,) = problems(f"[kestrel.default]\n{name} = {value}")
    assert problem.startswith(f"{FILE}: kestrel.default.{name} is ")
    assert ", allowed is " in problem


def test_names_are_those_that_clients_send() -> None:
    tables = load('[kestrel.queues."größe"]\nmaxItems = 1\n[kestrel.aliases]\n"ä" = ["ö"]').kestrel_queues
    assert tables.queues == {wire_name("größe"): {"max_items": 1}}
    assert tables.aliases == {wire_name("ä"): (wire_name("ö"),)}


def test_all_mistakes_are_told_at_once_with_their_places() -> None:
    found = problems(
        """
        num.partitions = 0
        [kestrel]
        prot = 1
        [kestrel.default]
        maxItmes = 1
        [kestrel.queues."a.b"]
        maxItems = 1
        [kestrel.queues.q]
        whiteListClientIdForDequeue = "x"
        maxAge = 0
        [kestrel.queues]
        r = 5
        [kestrel.aliases]
        one = []
        two = "q"
        three = ["a/b", "q"]
        four = ["q", "q"]
        """
    )
    assert [problem.removeprefix(f"{FILE}: ") for problem in found] == [
        "kestrel.default.maxItmes is no setting of a queue, did you mean maxItems?",
        "kestrel.queues has 'a.b', allowed is the name of a queue, which has none of . / ~ and no space"
        " (the topic a.b is the queue a%2Eb)",
        'kestrel.queues."q".whiteListClientIdForDequeue is no setting of a queue, see barbicel.toml.example',
        'kestrel.queues."q".maxAge is 0, allowed is "none", or milliseconds or text like "30 s"'
        " (ms, s, min, h, d), from 1 ms",
        'kestrel.queues."r" is 5, allowed is a table',
        'kestrel.aliases."one" is [], allowed is a list of queues: ["one", "two"]',
        'kestrel.aliases."two" is \'q\', allowed is a list of queues: ["one", "two"]',
        "kestrel.aliases.\"three\" has 'a/b', allowed is the name of a queue,"
        " which has none of . / ~ and no space",
        "kestrel.aliases.\"four\" is ['q', 'q'], which names a queue twice",
        "num.partitions is 0, allowed is a whole number from 1 to 10000",
        "kestrel.prot is no setting, did you mean kestrel.port?",
    ]


@pytest.mark.parametrize("text", ["kestrel = 5", "[[kestrel]]\nport = 1"])
def test_kestrel_is_a_table(text: str) -> None:
    (problem,) = problems(text)
    assert "kestrel is no setting" in problem


@pytest.mark.parametrize("table", ["default", "queues", "aliases"])
def test_so_are_its_parts(table: str) -> None:
    (problem,) = problems(f"kestrel.{table} = 5")
    assert problem == f"{FILE}: kestrel.{table} is 5, allowed is a table"


def test_an_alias_may_lead_to_others() -> None:
    text = '[kestrel.aliases]\na = ["x", "b", "c"]\nb = ["y", "c"]\nc = ["z", "x"]'
    assert load(text).kestrel_queues.aliases == {"a": ("x", "y", "z"), "b": ("y", "z", "x"), "c": ("z", "x")}


def test_an_alias_does_not_lead_to_itself() -> None:
    found = problems('[kestrel.aliases]\na = ["a"]\nb = ["c"]\nc = ["x", "b"]\nd = ["b"]')
    assert found == [f'{FILE}: kestrel.aliases."{name}" leads back to itself' for name in "abc"]
