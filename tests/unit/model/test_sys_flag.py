from __future__ import annotations

import pytest

from rocketlake.model import property_names, sys_flag


@pytest.mark.parametrize(("flag", "kind"), [(0x001, 3), (0x101, 1), (0x201, 2), (0x301, 3), (0x401, 4)])
def test_compression_type_and_what_old_peers_leave_out(flag, kind):
    assert sys_flag.compression_type(flag) == kind


def test_a_java_producer_marks_zlib_with_769():
    assert sys_flag.mark_compressed(0, sys_flag.ZLIB) == 769
    assert sys_flag.mark_compressed(0x201 | 16, sys_flag.LZ4) == 0x101 | 16
    assert sys_flag.transaction_type(16 | 12) == sys_flag.TRANSACTION_ROLLBACK


def test_property_names_are_all_different():
    constants = [value for name, value in vars(property_names).items() if name.isupper() and isinstance(value, str)]
    assert len(constants) == len(set(constants))
    assert len(constants) > 50
    assert set(constants) > property_names.RESERVED
