"""What the gRPC library takes from the environment when it is loaded, and from nowhere else."""

import os
from typing import Final

#: The library offers TLS 1.2 beside 1.3, and can be told the suites of 1.2 only. This one needs a secret that both
#: sides know before, which nobody has: so no handshake of 1.2 succeeds. The suites of 1.3 are not affected.
_VARIABLES: Final = {
    "GRPC_SSL_CIPHER_SUITES": "ECDHE-PSK-AES128-CBC-SHA",
    # Strangers must not write lines to the log of a node.
    "GRPC_VERBOSITY": "NONE",
}


def prepare_grpc() -> None:
    """For a process whose gRPC endpoint has TLS: 1.3 only. Call it before `grpc` is imported for the first time."""
    for name, value in _VARIABLES.items():
        os.environ.setdefault(name, value)
