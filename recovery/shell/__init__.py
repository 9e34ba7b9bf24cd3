"""The runtime around the protocol: sockets, processes, shared memory, torch. It decides nothing."""
