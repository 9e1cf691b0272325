"""Groups of replicas without stores and sockets: the rules alone, under every fault that chance can play.

Owns        models of brokers and controllers that run the real rules of both; broken rules that must be caught.
Must not know   stores, the network.
"""
