"""The one request to Microsoft's object store that the library under test does not have: a new container."""

import base64
import hashlib
import hmac
import urllib.request
from email.utils import formatdate

#: Of every Azurite, and in its documentation.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_VERSION = "2021-08-06"
#: Lines of standard headers between the method and those of the store: this request has none.
_NO_HEADERS = "\n" * 12


def container_request(address: str, name: str) -> urllib.request.Request:
    """Signed with the account's key."""
    path, now = f"/{ACCOUNT}/{name}", formatdate(usegmt=True)
    told = f"PUT{_NO_HEADERS}x-ms-date:{now}\nx-ms-version:{_VERSION}\n/{ACCOUNT}{path}\nrestype:container"
    signed = base64.b64encode(hmac.new(base64.b64decode(KEY), told.encode(), hashlib.sha256).digest()).decode()
    headers = {"x-ms-date": now, "x-ms-version": _VERSION, "Authorization": f"SharedKey {ACCOUNT}:{signed}"}
    return urllib.request.Request(f"{address}{path}?restype=container", method="PUT", headers=headers)
