"""Connected clients: consumers, producers, the queues that consumers have locked.

Owns        the members of groups, how they are told of changes, when silent ones are forgotten.
Must not know   settings of groups (groups/), topics, offsets.
Start reading at    consumers.py
"""
