"""Answers of members that fell behind are not believed."""

from __future__ import annotations

import pytest

from rocketlake.controller.etcd.freshness import Freshness
from rocketlake.controller.etcd.versions import refused_version
from rocketlake.controller.etcd.wire import Header


def header(member: int, *, term: int = 5, revision: int = 100, cluster: int = 7) -> Header:
    return Header(cluster, member, revision, term)


def fresh(*headers: Header, count: int = 3) -> Freshness:
    seen = Freshness(count)
    for each in headers:
        assert seen.judge(each, 0) == ""
    return seen


def test_another_cluster_is_not_believed() -> None:
    assert "belongs to another cluster" in fresh(header(1)).judge(header(2, cluster=8), 0)


def test_a_member_whose_term_went_back_is_not_believed() -> None:
    seen = fresh(header(1, term=5))
    assert seen.judge(header(1, term=4), 0) == "its term went back from 5 to 4"
    assert seen.judge(header(1, term=5), 0) == ""


def test_a_member_behind_the_term_of_a_majority_is_not_believed() -> None:
    seen = fresh(header(1, term=6), header(2, term=6))
    assert seen.judge(header(3, term=5), 0) == "it is in term 5, a majority in 6"


def test_a_lonely_member_that_counts_its_term_up_harms_no_other() -> None:
    seen = fresh(header(1, term=5), header(2, term=5), header(3, term=40))
    assert seen.judge(header(1, term=5), 0) == ""


def test_a_revision_before_one_that_was_known_when_the_request_was_sent_is_not_believed() -> None:
    seen = fresh(header(1, revision=100))
    assert seen.judge(header(2, revision=99), 100) == "it is at revision 99, 100 was seen before"
    assert seen.judge(header(2, revision=99), 98) == ""
    assert seen.revision == 100


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("3.4.22", "too old"),
        ("3.4.23", ""),
        ("3.4.45", ""),
        ("3.5.0", "can diverge"),
        ("3.5.2", "can diverge"),
        ("3.5.3", ""),
        ("3.5.16+dfsg", ""),
        ("3.7.0-rc.0", ""),
        ("2.3.8", "too old"),
        ("", "cannot be read"),
    ],
)
def test_a_version_that_is_refused_has_a_reason(version: str, reason: str) -> None:
    refused = refused_version(version, unsafe_versions=False)
    assert bool(refused) == bool(reason)
    assert reason in refused


def test_tests_may_use_a_version_that_can_diverge() -> None:
    assert refused_version("3.5.1", unsafe_versions=True) == ""
