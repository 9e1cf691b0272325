"""The files of a broker: commit log, consume queues, key index, checkpoint, abort and lock.

Owns the bytes on disk and when they are safe there. Must not know the network, topics' settings, consumer groups.
Start reading at message_store.py, then commit_log.py. Layout: docs/internals/store_layout.md.
"""
