from __future__ import annotations

import dataclasses

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.base.settings.config_file import java_name, load
from rocketlake.store.config import WITHOUT_EFFECT, StoreConfig


def test_java_names_and_values_are_taken() -> None:
    config = load(
        StoreConfig,
        overrides={
            "flushDiskType": "SYNC_FLUSH",
            "mappedFileSizeCommitLog": "65536",
            "transientStorePoolEnable": "true",
            "deleteWhen": "04;16",
            "fileReservedTime": "48",
        },
    )
    assert config.sync_flush
    assert config.commit_log_file_bytes == 65536
    assert config.write_pool_enabled and not config.uses_write_pool
    assert config.delete_hours == {4, 16}
    assert config.file_reserved_ms == 48 * 3_600_000


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("flushDiskType", "FAST", "flushDiskType = 'FAST'.*SYNC_FLUSH or ASYNC_FLUSH"),
        ("deleteWhen", "25", "deleteWhen has the hour '25'"),
        ("deleteWhen", "four", "deleteWhen has the hour 'four'"),
        ("diskSpaceCleanForciblyRatio", "95", "diskSpaceCleanForciblyRatio = 95 is above"),
        ("mappedFileSizeCommitLog", "100", "out of range"),
        ("syncFlushTimeout", "soon", "syncFlushTimeout = 'soon' is no"),
        ("flushDiskTyp", "SYNC_FLUSH", "unknown setting flushDiskTyp.*flushDiskType"),
    ],
)
def test_a_bad_setting_is_named_with_the_cure(key: str, value: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        load(StoreConfig, overrides={key: value})


def test_every_setting_has_a_java_name_of_its_own_and_a_reason() -> None:
    fields = dataclasses.fields(StoreConfig)
    names = [java_name(field) for field in fields]
    assert len(set(names)) == len(names)
    assert not set(names) & WITHOUT_EFFECT
    assert all(field.metadata["why"] for field in fields)
