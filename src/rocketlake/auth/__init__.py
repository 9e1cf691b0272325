"""Which asker may do what.

Owns        the rules, and the decision for one asker and one action.
Must not know   requests and connections: the gate in front of the handlers (net/admin_gate.py) asks here.
Start reading at    admin_access.py
"""
