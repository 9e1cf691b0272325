"""What the calls mean: each service turns gRPC requests into questions to brokers, and answers back.

Owns        the methods of MessagingService.
Must not know   bytes of HTTP/2 (http2/), the forms of messages (v2/, convert/).
Start reading at    messaging.py
"""
