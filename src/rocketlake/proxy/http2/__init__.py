"""HTTP/2 and the framing of gRPC: bytes in, calls out.

Owns        connections, streams, windows, the five bytes before each message, trailers.
Must not know   which methods there are, what their messages say.
Start reading at    link.py
"""
