"""The requests of brokers and administrators to a controller.

Owns        their fields and answers, who may send them.
Must not know   the rules of a decision, when a master is suspected.
"""
