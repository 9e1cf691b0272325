"""The AutoSwitch dialect of the HA stream: a handshake, epochs and a confirm offset beside the bytes of the log.

Owns        its bytes, what is settled before records flow, which peers are refused.
Must not know   sockets, the controller, who is elected and why.
"""
