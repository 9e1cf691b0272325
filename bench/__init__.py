"""Speed beside Apache RocketMQ on one machine. Owns: peers, loads, ratios. Start reading at `__main__.py`."""
