"""How a send is done once it is let in: the message and its checks, single or in a batch, and the answer.

Owns        the steps between a send that was let in and the intake, shared by the ordinary path and by runs.
Must not know   the rights of a send (rights/), how topics are made, how a message is stored or delayed.
Start reading at    single.py
"""
