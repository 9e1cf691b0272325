"""Bounded replays: a time range of a topic once more, into another topic or for a group that is not running.

Owns        the plan of a replay, the rule that each message is copied once however often the replay runs.
Must not know   Spark: a replay uses the plain client. It stands beside the pipelines, whose counterpart it is.

Start reading at copy_topic.py.
"""
