"""Real peers for tests and benchmarks: Apache RocketMQ's servers and small drivers in other languages."""
