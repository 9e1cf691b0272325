"""The messages of `apache.rocketmq.v2`: names, numbers, classes.

Owns        the table of messages and methods, the enums, classes made of them.
Must not know   what a message means here (convert/), connections.
Start reading at    messages.py
"""
