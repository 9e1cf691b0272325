"""Replicas of a broker's store: the log as a stream of bytes from a master to its slaves.

Owns        the frames between master and slave, who follows whom, how far each replica has come.
Must not know   requests of clients, tables of topics and groups, why a role changes.
"""
