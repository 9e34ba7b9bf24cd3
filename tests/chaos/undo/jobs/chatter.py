"""A job of one process a node that counts steps aloud: chatter.py STEPS STEP_S NODE ADDRESS PORT.

Every node but the first keeps a connection to the first and says a byte on it in each step, so that there is
something for a network to lose.
"""

import socket
import sys
import threading
import time

STEPS, STEP_S, NODE = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
ADDRESS = (sys.argv[4], int(sys.argv[5]))


def listen(server: socket.socket) -> None:
    while True:
        connection, _ = server.accept()
        threading.Thread(target=drain, args=(connection,), daemon=True).start()


def drain(connection: socket.socket) -> None:
    try:
        while connection.recv(64):
            pass
    except OSError:
        # The fault has cut it.
        pass


def connect() -> socket.socket | None:
    try:
        line = socket.create_connection(ADDRESS, timeout=STEP_S)
        line.setblocking(False)
        return line
    except OSError:
        # Not there yet, or cut off; the next step tries again.
        return None


if NODE == 0:
    threading.Thread(
        target=listen, args=(socket.create_server(("0.0.0.0", ADDRESS[1])),), daemon=True
    ).start()
line = None
for step in range(STEPS):
    print(f"step {step}", flush=True)
    if NODE > 0:
        line = line or connect()
        try:
            if line is not None:
                line.send(b".")
        except BlockingIOError:
            # The buffer is full: nobody acknowledges any more.
            pass
        except OSError:
            line = None
    time.sleep(STEP_S)
