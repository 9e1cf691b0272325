"""Lite topics: light queues inside a parent topic, who subscribes to them, how they are popped."""
