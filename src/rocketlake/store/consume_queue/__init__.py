"""One index per (topic, queue id): queue offset -> where the record lies in the commit log, and its tag code.

Owns the 20-byte entries, min, max and next offsets. Must not know records, the key index, consumer groups.
Start reading at queue.py. Layout: docs/internals/store_layout.md, "Consume queue".
"""
