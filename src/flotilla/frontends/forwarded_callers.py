"""The callers of a proxy: their credentials are passed on to the brokers, which decide.

`Authorization: Basic` and `Bearer` are read as a node reads them, and refused where they could be read on the way.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from flotilla.broker.observability.proxy_meter import ProxyMeter
from flotilla.client.credentials import Credentials, Password, Token
from flotilla.frontends.caller import read_basic
from flotilla.gateway.caller_gateways import CallerGateways
from flotilla.types.address import Address
from flotilla.types.errors import UnauthenticatedError

_HEADER_CHARS_MAX: Final = 16 * 1024


class ForwardedCallers:
    def __init__(self, gateways: CallerGateways) -> None:
        self._gateways = gateways
        self.meter = ProxyMeter()

    @contextmanager
    def serving(self, authorization: str, address: Address | None, *, is_encrypted: bool) -> Iterator[None]:
        """While a request is served. Raises UnauthenticatedError, OverloadedError before it begins."""
        is_safe = is_encrypted or (address is not None and address.is_loopback)
        if authorization and not is_safe:
            raise UnauthenticatedError("passwords and tokens are refused on connections that are not encrypted")
        with self._gateways.serving(authorization, lambda: _read(authorization)):
            yield


def _read(authorization: str) -> Credentials:
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if value and len(authorization) <= _HEADER_CHARS_MAX:
        if scheme.lower() == "basic":
            return Password(*read_basic(value))
        if scheme.lower() == "bearer":
            return Token(value)
    raise UnauthenticatedError(f"the Authorization {scheme[:32]!r} is not known here")
