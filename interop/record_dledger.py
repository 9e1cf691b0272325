"""Owns recording the store that a broker of Apache writes in DLedger mode, into tests/golden/stores/.

Run by hand: `.venv/bin/python -m interop.record_dledger`. One member alone writes the same bytes as three.
The folder `index` (32 bytes an entry, in files of 160 MB) is left out: what it says stands in the entries, too.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from interop.apache import apache_cluster, free_ports, run_driver
from interop.record_golden import GOLDEN, STORE_SETTINGS

TARGET = GOLDEN / "stores" / "apache-5.3.3-dledger"


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="golden-"))
    (port,) = free_ports(1)
    settings: dict[str, object] = {
        **STORE_SETTINGS,
        "enableDLegerCommitLog": "true",
        "dLegerGroup": "golden",
        "dLegerPeers": f"n0-127.0.0.1:{port}",
        "dLegerSelfId": "n0",
    }
    with apache_cluster(root / "cluster", settings=settings) as cluster:
        time.sleep(5)  # it is a slave until it has elected itself
        print(run_driver("Produce", cluster.namesrv, "Golden", "sync", 300, 150, "A,B,C"))
        print(run_driver("Produce", cluster.namesrv, "Golden", "batch", 40, 50, "A,B,C"))
        print(run_driver("Produce", cluster.namesrv, "Golden", "sync", 4, 9000, "Big"))
        print(run_driver("Consume", cluster.namesrv, "Golden", "golden_group", "*", "concurrent", 300, 40, 100))
        cluster.stop()
        shutil.rmtree(TARGET, ignore_errors=True)
        shutil.copytree(
            cluster.store,
            TARGET,
            ignore=shutil.ignore_patterns("lock", "timer*", "rocksdb*", "compaction", "*.bak", "index", "consumequeue"),
        )
    shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main())
