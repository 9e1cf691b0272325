"""The broker: takes messages, keeps them, hands them out.

Owns        tables of topics, groups, offsets and clients, and what each request does to them.
Must not know   the name server and the client packages, how a socket or a file is served.
Start reading at    dispatch_table.py (which request is served by whom), then processors/send.py
"""
