"""The lock of write buffers in memory, where the machine forbids it."""

from __future__ import annotations

import subprocess
import sys

_NOBODY_MAY = """
import os, resource
from rocketlake.store.write_pool import WritePool
pool = WritePool(2, 1 << 16)
resource.setrlimit(resource.RLIMIT_MEMLOCK, (4096, 4096))
if os.geteuid() == 0:
    os.setuid(65534)  # the superuser has no limit
print(pool.lock())
pool.borrow()[:1] = b"x"
print(pool.free)
"""


def test_a_limit_that_forbids_the_lock_is_said_with_its_cure_and_nothing_fails() -> None:
    ran = subprocess.run([sys.executable, "-c", _NOBODY_MAY], capture_output=True, text=True, check=True)
    trouble, free = ran.stdout.splitlines()
    assert "not locked in memory" in trouble and "RLIMIT_MEMLOCK is 4096 bytes" in trouble
    assert "Cure: let the process lock 131072 bytes" in trouble
    assert free == "1"
