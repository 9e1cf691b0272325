"""The rights to read a topic and to write to it.

The checks of a request are here, apart from the processors that serve it: several kinds of request ask the same
question. Rights take the values of a header, never a request or an asker, and refuse by one exception (refusal.py).
"""
