"""Pops: messages that are handed out for a while, and come again if they are not acknowledged by then.

Owns        check points and acknowledgements, what was handed out, what comes again.
Must not know   connections, how requests are dispatched.
"""
