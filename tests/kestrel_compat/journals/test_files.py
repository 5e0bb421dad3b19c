"""Which files are which queue's, and in which order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.kestrel_compat.journals.files import FoundFile, Selection, import_id, select_files
from barbicel.kestrel_compat.journals.queue import DoubtKind, JournalFile


def select(*names: str) -> Selection:
    """In any order: a listing has none."""
    shuffled = random.Random(len(names)).sample(names, len(names))
    return select_files([FoundFile(name, 1, 2) for name in shuffled])


def names_of(selection: Selection) -> dict[str, list[str]]:
    return {queue: [file.name for file in found.files] for queue, found in selection.queues.items()}


# (names, files of each queue in their order, files left out)
DIRECTORIES = [
    ([], {}, {}),
    (["cars"], {"cars": ["cars"]}, {}),
    (["cars.904", "cars"], {"cars": ["cars.904", "cars"]}, {}),
    (["q.9", "q.10", "q.100", "q"], {"q": ["q.9", "q.10", "q.100", "q"]}, {}),
    (["q.7"], {"q": ["q.7"]}, {}),
    (["q.7", "q.07"], {"q": ["q.07", "q.7"]}, {}),
    (["q.9223372036854775807", "q"], {"q": ["q.9223372036854775807", "q"]}, {}),
    (["b", "a.1", "a+x", "a+x.2"], {"a": ["a.1"], "a+x": ["a+x.2", "a+x"], "b": ["b"]}, {}),
    (["q", "qq.5", "qq"], {"q": ["q"], "qq": ["qq.5", "qq"]}, {}),
    (
        ["cars.904", "cars.950", "cars.950.pack", "cars.951", "cars"],
        {"cars": ["cars.950.pack", "cars.951", "cars"]},
        {"cars.904": "superseded", "cars.950": "superseded"},
    ),
    (
        ["q.5.pack", "q.7.pack", "q.6", "q.8"],
        {"q": ["q.7.pack", "q.8"]},
        {"q.5.pack": "superseded", "q.6": "superseded"},
    ),
    (["q.5.pack"], {"q": ["q.5.pack"]}, {}),
    (["q.5.pack", "q+x.4"], {"q": ["q.5.pack"], "q+x": ["q+x.4"]}, {}),
    (
        ["q", "q~~", "q~~1", "~~", "q.5~~"],
        {"q": ["q"]},
        dict.fromkeys(["q.5~~", "q~~", "q~~1", "~~"], "temporary"),
    ),
    (
        ["q", "q.bak", ".gitignore", "q.", "q.pack", "q.9223372036854775808"],
        {"q": ["q"]},
        dict.fromkeys([".gitignore", "q.", "q.9223372036854775808", "q.bak", "q.pack"], "stray"),
    ),
    # Kestrel looks no further than the number.
    (["q", "q.9", "q.10.bak"], {"q": ["q.9", "q.10.bak", "q"]}, {"q.10.bak": "odd-name"}),
    (["q.5", "q.5.bak", "q.5."], {"q": ["q.5"]}, {"q.5.": "stray", "q.5.bak": "stray"}),
    (["q.1.2", "q.1.pack.gz"], {"q": ["q.1.2"]}, {"q.1.2": "odd-name", "q.1.pack.gz": "stray"}),
    (
        ["q.5.pack", "q.4.bak", "q.5.bak", "q.6.bak"],
        {"q": ["q.5.pack", "q.6.bak"]},
        {"q.4.bak": "superseded", "q.5.bak": "superseded", "q.6.bak": "odd-name"},
    ),
    (
        ["q~", "+", "q.+5", "q.-5", "q.5\n", "q.\u0665"],
        {},
        dict.fromkeys(["+", "q.+5", "q.-5", "q.5\n", "q.\u0665", "q~"], "stray"),
    ),
    # Kestrel has a queue of such a name, and perhaps items in it.
    (
        ["q r", "q r.5", "\udcff", "x" * 250, "q\x01", "\u4e2d"],
        {},
        dict.fromkeys(["q r", "q r.5", "\udcff", "x" * 250, "q\x01", "\u4e2d"], "no-queue"),
    ),
]


@pytest.mark.parametrize(("names", "queues", "left_out"), DIRECTORIES)
def test_a_directory_as_queues(
    names: list[str], queues: dict[str, list[str]], left_out: dict[str, str]
) -> None:
    selection = select(*names)
    assert names_of(selection) == queues
    assert list(selection.queues) == sorted(queues)
    assert {doubt.file: str(doubt.kind) for doubt in selection.doubts} == left_out


def test_files_keep_what_the_listing_says_and_the_time_of_their_name() -> None:
    selection = select_files([FoundFile("q", 5, 6), FoundFile("q.7.pack", 8, 9)])
    assert selection.queues["q"].files == (JournalFile("q.7.pack", 8, 9, 7), JournalFile("q", 5, 6, None))


def test_directories_are_nobodys() -> None:
    selection = select_files([FoundFile("q", 0, 0, is_directory=True), FoundFile("r.5", 0, 0, True)])
    assert selection == Selection({}, [])


def test_what_kestrel_would_remove_itself_is_harmless() -> None:
    doubts = select("q.5.pack", "q.4", "q~~", "q.bak").doubts
    assert {doubt.kind: doubt.is_harmless for doubt in doubts} == {
        DoubtKind.SUPERSEDED: True,
        DoubtKind.TEMPORARY: True,
        DoubtKind.STRAY: False,
    }


@given(st.lists(st.text(alphabet="q.+~09pack/-", max_size=9), unique=True))
def test_every_file_is_in_one_queue_or_reported(names: list[str]) -> None:
    selection = select(*names)
    used = [file.name for found in selection.queues.values() for file in found.files]
    left_out = [doubt.file for doubt in selection.doubts if doubt.kind is not DoubtKind.ODD_NAME]
    assert sorted([*used, *left_out]) == sorted(names)


# --- the identity of an import --------------------------------------------------------------------------

FILES = (JournalFile("q.5", 10, 1000), JournalFile("q", 20, 2000))


def test_an_import_id_is_that_of_names_sizes_and_times() -> None:
    # sha256("q.5/10/1000/q/20/2000/")
    assert import_id(FILES) == "ef073a6eea81de61"
    assert import_id([file._replace(rotated_ms=5) for file in FILES]) == import_id(FILES)


@pytest.mark.parametrize("change", [{"name": "r"}, {"size": 21}, {"modified_ms": 2001}])
def test_another_file_has_another_id(change: dict[str, object]) -> None:
    other = FILES[1]._replace(**change)  # type: ignore[arg-type]
    assert import_id([FILES[0], other]) != import_id(FILES)
    assert import_id([other]) != import_id([FILES[1]])


def test_ids_do_not_run_together() -> None:
    assert import_id([JournalFile("q", 1, 11)]) != import_id([JournalFile("q", 11, 1)])
    assert import_id(FILES[:1]) != import_id(FILES)
    assert import_id(FILES[::-1]) != import_id(FILES)
