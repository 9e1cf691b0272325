from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.broker.groups.attributes import apply_changes


def test_changes_are_applied_and_the_rest_stays():
    current = {"priority.factor": "5", "lite.sub.model": "Shared"}
    assert apply_changes(current, {}) == current
    assert apply_changes(current, {"+priority.factor": "100", "-lite.sub.model": ""}) == {"priority.factor": "100"}
    assert current == {"priority.factor": "5", "lite.sub.model": "Shared"}
    assert apply_changes(None, {"+lite.bind.topic": "T"}) == {"lite.bind.topic": "T"}


def test_settings_that_were_read_may_be_written_back():
    assert apply_changes({"priority.factor": "5"}, {"priority.factor": "5"}) == {"priority.factor": "5"}


def test_an_unknown_attribute_that_is_stored_can_be_removed():
    assert apply_changes({"+no.such": "1"}, {"-+no.such": ""}) == {}


@pytest.mark.parametrize(
    ("current", "changes", "problem"),
    [
        (None, {"+no.such": "1"}, "unknown attribute 'no.such'"),
        ({}, {"-no.such": ""}, "unknown attribute 'no.such'"),
        ({}, {"priority.factor": "5"}, "has no sign"),
        ({}, {"": "5"}, "has no sign"),
        (None, {"-priority.factor": ""}, "group that is new"),
        ({}, {"+priority.factor": "5", "-priority.factor": ""}, "given twice"),
        ({}, {"+priority.factor": "101"}, "no number from 0 to 100"),
        ({}, {"+priority.factor": "-1"}, "no number from 0 to 100"),
        ({}, {"+priority.factor": "much"}, "no number from 0 to 100"),
        ({}, {"+lite.sub.client.max.event.cnt": "9"}, "no number from 10"),
        ({}, {"+lite.sub.model": "shared"}, "Shared, Exclusive"),
        ({}, {"+lite.sub.reset.offset.exclusive": "yes"}, "true, false"),
    ],
)
def test_what_apache_refuses_is_refused(current, changes, problem):
    with pytest.raises(UsageError, match=problem) as refused:
        apply_changes(current, changes)
    assert refused.value.hint
