"""Contexts of the `ssl` module from files: TLS 1.3 only, and keys that nobody else may read.

Files change while a process runs: certificates are short-lived. `FreshContext` notices, and goes on with what it has
when the new files cannot be used.
"""

import os
import ssl
import stat
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from flotilla.types.errors import InvalidArgumentError

OFF: Final = "off"
OPTIONAL: Final = "optional"
REQUIRED: Final = "required"
_VERIFY: Final = {OFF: ssl.CERT_NONE, OPTIONAL: ssl.CERT_OPTIONAL, REQUIRED: ssl.CERT_REQUIRED}


class TlsError(ConnectionError):
    """The other side is there, and will not or cannot be spoken to; the text says why."""

    def __init__(self, text: str, *, is_plain: bool = False) -> None:
        """`is_plain`: it seems to be one that does not speak TLS."""
        super().__init__(text)
        self.is_plain = is_plain


def server_context(certificate: str, key: str, ca: str, client_certificates: str) -> ssl.SSLContext:
    """For the side that accepts. `client_certificates` is off, optional or required; those shown must be of `ca`.

    Raises InvalidArgumentError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Clients keep their connections, so that nothing is gained by resuming them.
    context.num_tickets = 0
    context.verify_mode = _VERIFY[client_certificates]
    _load_own(context, certificate, key)
    if client_certificates != OFF:
        _load_ca(context, ca)
    return context


def client_context(ca: str, certificate: str = "", key: str = "", *, has_host_check: bool = True) -> ssl.SSLContext:
    """For the side that dials; without a `ca` the authorities that the system trusts. Raises InvalidArgumentError.

    Without a host check the caller checks whom the other side's certificate names.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = has_host_check
    if ca:
        _load_ca(context, ca)
    else:
        context.load_default_certs()
    if certificate:
        _load_own(context, certificate, key)
    return context


def check_key(file: str) -> None:
    """Raises InvalidArgumentError for a key that is not there, or that others may read."""
    try:
        mode = os.stat(file).st_mode
    except OSError as error:
        raise InvalidArgumentError(f"cannot read the key {file}: {error.strerror}") from None
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidArgumentError(f"the key {file} can be read by others than its owner: chmod 600 {file}")


def _load_own(context: ssl.SSLContext, certificate: str, key: str) -> None:
    check_key(key)
    try:
        context.load_cert_chain(certificate, key, lambda: _encrypted(key))
    except ssl.SSLError as error:
        reason = "they do not belong together" if error.reason == "KEY_VALUES_MISMATCH" else explain(error)
        raise InvalidArgumentError(f"cannot use the certificate {certificate} with the key {key}: {reason}") from None
    except OSError as error:
        raise InvalidArgumentError(f"cannot read the certificate {certificate}: {error.strerror}") from None


def _encrypted(key: str) -> NoReturn:
    # Without this the library would ask at the terminal.
    raise InvalidArgumentError(f"the key {key} is encrypted; keep it in a file that only its owner can read")


def _load_ca(context: ssl.SSLContext, ca: str) -> None:
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError as error:
        raise InvalidArgumentError(f"{ca} has no certificates of authorities: {explain(error)}") from None
    except OSError as error:
        raise InvalidArgumentError(f"cannot read the authorities {ca}: {error.strerror}") from None


_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")


def is_plain(error: Exception) -> bool:
    """Whether a handshake failed as it does with a side that does not speak TLS: by other bytes, or by a cut."""
    return isinstance(error, ConnectionResetError) or (isinstance(error, ssl.SSLError) and error.reason in _NO_TLS)


def explain(error: Exception) -> str:
    """A failure of TLS as an operator would say it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the other side is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        if error.reason in _NO_TLS:
            return "the other side does not speak TLS"
        if "_ALERT_" in error.reason:
            said = error.reason.partition("_ALERT_")[2].replace("_", " ").lower()
            return f"the other side ended TLS: {said}"
        return f"TLS failed: {error.reason.replace('_', ' ').lower()}"
    return str(error) or type(error).__name__


class FreshContext:
    """A context that is made again when its files have changed."""

    def __init__(self, files: Sequence[str], make: Callable[[], ssl.SSLContext]) -> None:
        """Raises InvalidArgumentError when the files cannot be used now."""
        self._files = [file for file in files if file]
        self._make = make
        self._stamps = stamps_of(self._files)
        self._context = make()

    def get(self) -> ssl.SSLContext:
        """The newest that could be made."""
        stamps = stamps_of(self._files)
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._context = self._make()
            except InvalidArgumentError:
                # Half of the files may have been replaced; the other half changes the stamps again.
                pass
        return self._context


def stamps_of(files: Sequence[str]) -> list[tuple[int, ...]]:
    """Something that changes when one of the files does."""
    found: list[tuple[int, ...]] = []
    for file in files:
        try:
            status = os.stat(file)
        except OSError:
            found.append(())
        else:
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return found
