"""Epochs: which master wrote which stretch of a log.

Owns        the history of epochs of one store, its file, what two histories say of two logs.
Must not know   links between replicas, the controller, records.
"""
