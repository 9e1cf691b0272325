"""The table of etcd's refusals: its texts count more than its codes."""

from __future__ import annotations

import pytest

from rocketlake.controller.etcd.codes import Next, refusal_of


@pytest.mark.parametrize(
    ("code", "text", "next_step", "is_before"),
    [
        (14, "etcdserver: request timed out", Next.ELSEWHERE, False),
        (14, "etcdserver: leader changed", Next.ELSEWHERE, False),
        (14, "etcdserver: request timed out, possibly due to previous leader failure", Next.ELSEWHERE, False),
        (14, "etcdserver: no leader", Next.ELSEWHERE, False),
        (9, "etcdserver: not leader", Next.ELSEWHERE, False),
        (2, "etcdserver: not a primary lessor", Next.ELSEWHERE, False),
        (2, "raft proposal dropped", Next.ELSEWHERE, False),
        (8, "etcdserver: too many requests", Next.ELSEWHERE, True),
        (15, "etcdserver: corrupt cluster", Next.ELSEWHERE, False),
        (99, "a code of later days", Next.ELSEWHERE, False),
        (16, "etcdserver: invalid auth token", Next.LOG_IN, True),
        (3, "etcdserver: user name is empty", Next.LOG_IN, True),
        (3, "etcdserver: revision of auth store is old", Next.LOG_IN, True),
        (9, "etcdserver: authentication is not enabled", Next.NO_ACCOUNTS, True),
        (3, "etcdserver: authentication failed, invalid user ID or password", Next.GIVE_UP, True),
        (7, "etcdserver: permission denied", Next.GIVE_UP, True),
        (8, "etcdserver: mvcc: database space exceeded", Next.GIVE_UP, True),
        (3, "etcdserver: request is too large", Next.GIVE_UP, True),
        (11, "etcdserver: mvcc: required revision has been compacted", Next.GIVE_UP, True),
    ],
)
def test_a_refusal_says_what_helps(code: int, text: str, next_step: Next, is_before: bool) -> None:
    row = refusal_of(code, text)
    assert (row.next, row.is_before) == (next_step, is_before)


@pytest.mark.parametrize("text", ["authentication failed", "permission denied", "database space exceeded"])
def test_what_an_operator_must_mend_has_a_cure(text: str) -> None:
    assert refusal_of(2, f"etcdserver: {text}").hint
