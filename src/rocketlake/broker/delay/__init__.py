"""Messages that become visible later (the delay levels).

Owns        the levels, parking a message, delivering it when it is due.
Must not know   requests, connections.
Start reading at    schedule.py
"""
