# Types of ack_body.pyx for Python: it has none.

__all__: list[str] = []
