"""This broker as a member of a group: its id, its role, and who is in step with it, as a controller records them.

Owns        the talk with the controllers, the change from one role to another, the set of replicas of a master.
Must not know   how controllers decide, how bytes are copied between replicas.
"""
