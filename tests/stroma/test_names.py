"""Which group lies under which file name: a bijection, whatever topics and groups are called."""

from __future__ import annotations

import re
from hashlib import sha256

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barbicel.stroma.names import (
    MAX_STEM_BYTES,
    GroupKey,
    file_stem,
    is_hashed,
    parse_full_name,
    parse_stem,
    render_full_name,
)

PARTITION_MAX = 2**31 - 1
FILE_NAME_MAX_BYTES = 255
LONGEST_SUFFIX = ".delta.corrupt-18446744073709551615"

# Names from an alphabet in which a careless mapping would collide, and names of any kind.
tricky = st.text(alphabet="ab0159F.-_%h/", max_size=12)
any_text = st.text(max_size=100)
topics = st.one_of(tricky, any_text).filter(bool)
groups = st.one_of(tricky, any_text)
partitions = st.one_of(st.integers(0, 20), st.integers(0, PARTITION_MAX))
keys = st.builds(GroupKey, topics, partitions, groups)

EXAMPLES = {
    "orders-3_billing": GroupKey("orders", 3, "billing"),
    "orders-0_": GroupKey("orders", 0, ""),
    "a.b-c-12_d.e-f": GroupKey("a.b-c", 12, "d.e-f"),
    "my%5Ftopic-0_my%5Fgroup": GroupKey("my_topic", 0, "my_group"),
    "q%2Baudit-0_kestrel": GroupKey("q+audit", 0, "kestrel"),
    "100%25-0_50%25": GroupKey("100%", 0, "50%"),
    "%2Fetc%2Fpasswd-0_..%2F..": GroupKey("/etc/passwd", 0, "../.."),
    ".-0_.": GroupKey(".", 0, "."),
    "..-0_..": GroupKey("..", 0, ".."),
    "nul%00-0_new%0Aline%20": GroupKey("nul\0", 0, "new\nline "),
    "n%C5%93ud-7_%F0%9F%AA%B6": GroupKey("nœud", 7, "🪶"),
    "---0_-": GroupKey("--", 0, "-"),
    "t-2147483647_g": GroupKey("t", PARTITION_MAX, "g"),
    f"h-0123456789abcdef0123456789abcdef-0_{'0' * 32}": GroupKey(
        "h-0123456789abcdef0123456789abcdef", 0, "0" * 32
    ),
}


def key_of_length(size: int) -> GroupKey:
    """A key whose full name has this many bytes."""
    return GroupKey("t", 0, "g" * (size - len("t-0_")))


# --- names that say it all ------------------------------------------------------------------------


@pytest.mark.parametrize("stem", EXAMPLES)
def test_examples(stem: str) -> None:
    key = EXAMPLES[stem]
    assert render_full_name(key) == stem
    assert file_stem(key) == stem
    assert parse_stem(stem) == key
    assert not is_hashed(stem)


def test_hashes_of_a_key() -> None:
    key = GroupKey("orders", 3, "billing")
    assert key.tp_hash == 0xCF0A953472259127
    assert key.group_hash == 0x0C95C7ECE1CE1A97


@given(keys)
def test_every_key_comes_back(key: GroupKey) -> None:
    full = render_full_name(key)
    assert parse_full_name(full) == key
    if len(full) <= MAX_STEM_BYTES:
        assert file_stem(key) == full
        assert parse_stem(full) == key


@given(keys, keys)
@example(GroupKey("a-1", 2, "b"), GroupKey("a", 1, "-2_b"))
@example(GroupKey("a_b", 0, "c"), GroupKey("a", 0, "b-0_c"))
@example(GroupKey("a", 0, "_"), GroupKey("a", 0, "%5F"))
@example(GroupKey("a", 0, "é"), GroupKey("a", 0, "e\u0301"))
@example(key_of_length(300), key_of_length(301))
def test_distinct_keys_have_distinct_stems(one: GroupKey, other: GroupKey) -> None:
    assert (file_stem(one) == file_stem(other)) == (one == other)


@given(keys)
def test_every_stem_is_a_file_name(key: GroupKey) -> None:
    stem = file_stem(key)
    assert re.fullmatch(r"[A-Za-z0-9.%_-]+", stem)
    assert stem not in (".", "..")
    assert len(stem.encode()) <= MAX_STEM_BYTES == 200
    assert len((stem + LONGEST_SUFFIX).encode()) <= FILE_NAME_MAX_BYTES
    assert stem not in ("LOCK", "tmp")


@given(keys)
def test_one_bare_underscore_separates(key: GroupKey) -> None:
    assert render_full_name(key).count("_") == 1
    assert file_stem(key).count("_") == (0 if is_hashed(file_stem(key)) else 1)


# --- names that are hashes ------------------------------------------------------------------------


def test_stem_of_more_than_200_bytes_is_a_hash() -> None:
    assert file_stem(key_of_length(200)) == render_full_name(key_of_length(200))
    # printf 't-0_%s' $(printf 'g%.0s' $(seq 197)) | sha256sum
    assert file_stem(key_of_length(201)) == "h-7e2bbedc50d8e8d7153c6eaad742a5c1"


@given(st.builds(GroupKey, topics, partitions, st.text(min_size=200, max_size=300)))
def test_hash_is_that_of_the_full_name(key: GroupKey) -> None:
    full = render_full_name(key)
    assert file_stem(key) == f"h-{sha256(full.encode()).hexdigest()[:32]}"
    assert is_hashed(file_stem(key))
    assert parse_stem(file_stem(key)) is None
    assert parse_full_name(full) == key


@given(keys)
def test_no_plain_name_passes_for_a_hash(key: GroupKey) -> None:
    assert not is_hashed(render_full_name(key))
    assert is_hashed(file_stem(key)) == (len(render_full_name(key)) > MAX_STEM_BYTES)


@pytest.mark.parametrize(
    "stem",
    [
        "",
        "h-",
        "h-" + "0" * 31,
        "h-" + "0" * 33,
        "h-" + "A" * 32,
        "H-" + "0" * 32,
        "h_" + "0" * 32,
        "h-" + "0" * 31 + "g",
        "h-" + "0" * 32 + "\n",
        " h-" + "0" * 32,
        "h-" + "٠" * 32,  # noqa: RUF001  Arabic-Indic digits
        "h-" + "0" * 32 + "_g",
    ],
)
def test_what_is_no_hash(stem: str) -> None:
    assert not is_hashed(stem)


# --- foreign names --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "",
        "_",
        "orders",
        "orders-3",
        "orders_billing",
        "-3_billing",  # no topic
        "3_billing",
        "orders-_billing",
        "orders-03_billing",
        "orders-00_billing",
        "orders-+3_billing",
        "orders- 3_billing",
        "orders-3a_billing",
        "orders-٣_billing",  # an Arabic-Indic three
        "orders-3_bil_ling",
        "ord_ers-3_billing",
        "orders-3__billing",
        "_orders-3_billing",
        "orders-3_billing_",
        "q%2baudit-0_g",
        "orders-3_%c3%a9",
        "orders-3_%C3%a9",
        "orders-3_%2G",
        "orders-3_%G2",
        "orders-3_%",
        "orders-3_%2",
        "orders-3_%%41",
        "orders-3_%41",  # a letter needs no escape
        "orders-3_%2E",
        "orders%2D3-0_g",
        "orders-3_%C3",  # no UTF-8
        "orders-3_%FF",
        "orders-3_%C0%AF",  # an overlong slash
        "orders-3_%ED%A0%80",  # a surrogate
        "orders-3_é",
        "orders-3_a+b",
        "orders-3_a b",
        "orders-3_a/b",
        "../orders-3_billing",
        "orders-3_billing\n",
        "orders-3_billing\0",
        " orders-3_billing",
    ],
)
def test_foreign_names_are_refused(name: str) -> None:
    assert parse_full_name(name) is None
    assert parse_stem(name) is None


@given(
    st.one_of(
        st.text(), st.text(alphabet="ab01-_%52fF."), st.from_regex(r"[a-c%-]+-[0-9]{1,3}_[%0-9A-Fa-f]*")
    )
)
def test_whatever_is_accepted_is_rendered_the_same(name: str) -> None:
    key = parse_full_name(name)
    assert key is None or render_full_name(key) == name


def test_plain_name_that_would_be_hashed_is_no_stem() -> None:
    assert parse_stem(render_full_name(key_of_length(200))) == key_of_length(200)
    assert parse_stem(render_full_name(key_of_length(201))) is None


def test_partition_of_very_many_digits_is_refused() -> None:
    assert parse_full_name(f"orders-{'9' * 5000}_billing") is None
