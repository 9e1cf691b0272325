"""What things are: messages, queues, topics, groups, routes. Plain values.

Owns        names, defaults and rules of RocketMQ's nouns.
Must not know   bytes, files, wire names. Start reading at message.py, topic.py.
"""
