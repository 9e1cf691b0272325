"""Who may do what.

Owns        users and their secrets, policies, the decision for one user and one action, the file they are kept in;
            the rule for servers without users (admin_access.py).
Must not know   requests and connections: the gate in front of the handlers (net/gate/) asks here.
Start reading at    accounts.py
"""
