"""Who is connected: live consumers, live producers, the queues they have locked.

Owns        the members of groups, telling them of changes, forgetting those that are silent.
Must not know   settings of groups (groups/), topics, offsets.
Start reading at    consumers.py
"""
