"""Where messages for a time wait: Apache's timer wheel, timer log and their checkpoint, byte for byte.

Owns        the three files, which messages are due at which tick, what a crash leaves of them.
Must not know   messages, properties, how a message is delivered.
Start reading at    timer_store.py
"""
