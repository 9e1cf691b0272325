"""The text of trace records: round trips, old and broken records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketlake.client.trace.format import (
    ConsumeCode,
    EndTransaction,
    MessageType,
    Pub,
    Recall,
    Record,
    SubAfter,
    SubBefore,
    TransactionState,
    decode,
    encode,
    keys_of,
)

TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"])).filter(lambda t: t != "null")
NAME = st.none() | TEXT
NUMBER = st.integers(0, 2**31 - 1)
RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(
        Pub, NUMBER, NAME, NAME, NAME, TEXT, NAME, NAME, NAME, NUMBER, NUMBER,
        st.sampled_from(MessageType), NAME, st.booleans(),
    ),
    st.builds(SubBefore, NUMBER, NAME, NAME, TEXT, TEXT, NUMBER, NAME),
    st.builds(SubAfter, TEXT, TEXT, NUMBER, st.booleans(), NAME, st.sampled_from(ConsumeCode), NUMBER, NAME),
    st.builds(
        EndTransaction, NUMBER, NAME, NAME, NAME, TEXT, NAME, NAME, NAME,
        st.sampled_from(MessageType), NAME, st.sampled_from(TransactionState), st.booleans(),
    ),
    st.builds(Recall, NUMBER, NAME, NAME, NAME, TEXT, st.booleans()),
)  # fmt: skip


@given(st.lists(RECORDS))
def test_what_is_written_is_read_again(records: list[Record]) -> None:
    assert decode("".join(map(encode, records))) == records


@given(st.text("Pub\x01\x02SubAfter0null"))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert all(encode(record) for record in decode(text))


def test_older_clients_write_fewer_fields_newer_ones_more() -> None:
    pub = ["Pub", "5", "R", "g", "T", "ID", "tag", "key", "h:1", "3", "7", "0"]
    for more, place in ((["true"], ""), (["P", "true"], "P"), (["P", "true", "10.0.0.1", "new"], "P")):
        (record,) = decode("\x01".join(pub + more) + "\x02")
        assert record == Pub(5, "R", "g", "T", "ID", "tag", "key", "h:1", 3, 7, MessageType.NORMAL, place, True)
    (after,) = decode("\x01".join(["SubAfter", "call", "ID", "9", "false", "key"]) + "\x02")
    assert after == SubAfter("call", "ID", 9, False, "key")
    (cloud,) = decode("\x01".join(["SubAfter", "call", "ID", "9", "false", "key", "2", ""]) + "\x02") or (None,)
    assert cloud == SubAfter("call", "ID", 9, False, "key", ConsumeCode.RAISED)


def test_a_broken_record_costs_itself_only() -> None:
    good = Recall(1, "R", "g", "T", "ID", True)
    broken = "Pub\x01now\x01R\x02", "Pub\x02", "SubBefore\x011\x02", "Unknown\x011\x02", "\x02"
    assert decode("".join(broken) + encode(good) + "Recall\x01x") == [good]


def test_a_record_is_found_by_its_id_and_its_keys() -> None:
    record = SubBefore(1, "R", "g", "call", "ID", 0, "k1 k2  k1")
    assert keys_of(record) == ("ID", "k1", "k2", "k1")
    assert keys_of(Recall(1, "R", "g", "T", "ID", True)) == ("ID",)


def test_separators_of_damaged_messages_stay_within_their_field() -> None:
    record = SubBefore(1, "R", "g", "call", "ID", 0, "a\x01b \x02c")
    assert decode(encode(record)) == [SubBefore(1, "R", "g", "call", "ID", 0, "a?b ?c")]
    assert keys_of(record) == ("ID", "a?b", "?c")
