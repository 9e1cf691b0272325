"""Which messages a subscription wants.

Owns        tag tests, and SQL92 expressions on message properties: reading them, and deciding them for one message.
Must not know   requests, where messages lie.
Start reading at    tag.py; for SQL92 sql_parser.py, sql_tree.py, sql_evaluate.py
"""
