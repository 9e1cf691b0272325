"""`make demo`: 336,776 flights through a RocketLake cluster into a Spark lake table, then counted and compared.

Owns: the job and what it prints. Must not know: insides of the broker. Start reading at run.py.
"""
