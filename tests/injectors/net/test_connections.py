from __future__ import annotations

import socket

from injectors.net import connections

TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 01004D0A:9516 02004D0A:1B58 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 20 4 30 10 -1
  sl  local_address                         remote_address                        st tx_queue rx_queue
   0: 0000000000000000FFFF000001004D0A:1B58 0000000000000000FFFF000003004D0A:A001 01 00000000:00000000 00:0
   1: 000080FE000000000000000001004D0A:1B58 000080FE000000000000000003004D0A:A001 01 00000000:00000000 00:0
"""


def test_established_ones_are_read_those_over_ipv6_sockets_too() -> None:
    assert connections.parse(TABLE) == [
        ("10.77.0.1", 38166, "10.77.0.2", 7000),
        ("10.77.0.1", 7000, "10.77.0.3", 40961),
    ]


def test_it_reads_what_this_kernel_writes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as ear, socket.create_connection(ear.getsockname()) as end:
        with open("/proc/self/net/tcp", encoding="ascii") as file:
            found = connections.parse(file.read())
        assert (*end.getsockname(), *end.getpeername()) in found
