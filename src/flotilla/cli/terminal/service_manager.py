"""Messages to the service manager that started this process (`Type=notify` of systemd)."""

import os
import socket

READY = "READY=1"
STOPPING = "STOPPING=1"

#: The socket that systemd listens at; it begins with @ in the abstract namespace.
_VARIABLE = "NOTIFY_SOCKET"


def notify(state: str) -> bool:
    """Tells it; False: there is none, or it does not listen. Never raises: a broker runs without one, too."""
    path = os.environ.get(_VARIABLE, "")
    if not path.startswith(("/", "@")):
        return False
    address = f"\0{path[1:]}" if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.sendto(state.encode(), address)
    except OSError:
        return False
    return True
