"""The gate in front of every handler: who asks, and may it?

Owns        what a request needs (needs.py), the one place where it is asked (access_gate.py), the signature on our own
            requests (signing.py).
Must not know   the rules (rocketlake.auth), the handlers.
Start reading at    access_gate.py
"""
