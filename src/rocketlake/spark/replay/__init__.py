"""Bounded replays: a time range of a topic once more, into another topic or for a group that is not running.

Owns: what is replayed, that each message is replayed once however often the replay is run. Must not know: Spark (it
works with the plain client; it stands here beside the pipelines, whose counterpart it is).
Start reading at: copy_topic.py.
"""
