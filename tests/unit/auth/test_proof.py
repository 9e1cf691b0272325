"""The proof of a user on a stream without requests: who made an answer, and how both ends find their bytes."""

from __future__ import annotations

import pytest

from rocketlake.auth.credentials import Credentials
from rocketlake.auth.proof import ANSWER_BYTES_MAX, MARK, answer, is_proven, new_question, question_in, read_answer
from rocketlake.base.errors import ProtocolError

ALICE = Credentials("alice", "alice-secret")


def test_an_answer_proves_its_user_for_one_question_only() -> None:
    question, other = new_question(), new_question()
    assert question != other
    found = read_answer(answer(question, ALICE))
    assert found is not None
    before, proof, behind = found
    assert (before, proof.user, behind) == (b"", "alice", b"")
    assert is_proven(question, proof, "alice-secret")
    assert not is_proven(question, proof, "another-secret")
    assert not is_proven(other, proof, "alice-secret")
    assert not is_proven(question, proof._replace(user="bob"), "alice-secret")


def test_a_question_is_found_however_its_bytes_come() -> None:
    question = new_question()
    assert [question_in(question[:size]) for size in range(len(question))] == [b""] * len(question)
    assert question_in(question + b"behind") == question
    assert question_in(b"\0\0\0\0") is None


def test_an_answer_is_found_between_other_bytes_however_it_comes() -> None:
    text = answer(new_question(), ALICE)
    whole = b"before" + text + b"behind"
    assert all(read_answer(whole[:size]) is None for size in range(len(b"before" + text)))
    found = read_answer(whole)
    assert found is not None
    assert (found[0], found[2]) == (b"before", b"behind")
    assert len(answer(new_question(), Credentials("n" * 128, "s"))) == ANSWER_BYTES_MAX


@pytest.mark.parametrize("size", [0, 129, 65535])
def test_a_name_that_nobody_has_is_no_answer(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"a name of {size} bytes"):
        read_answer(MARK + size.to_bytes(2, "big"))
