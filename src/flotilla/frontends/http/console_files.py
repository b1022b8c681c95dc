"""The files of the web console (`flotilla/console`), as they are in the package.

The page itself is looked at anew each time. It names its modules and its style under the digest of all files, so a
browser may keep those for ever, and never mixes files of two versions.
"""

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from flotilla.frontends.http.framework.operation import Call, Operation, page
from flotilla.frontends.http.framework.response import Response
from flotilla.frontends.http.pages import PAGE_HEADERS

_PAGE: Final = "index.html"
#: In the page: the digest of all files.
_DIGEST_MARK: Final = b"{digest}"
_DIGEST_CHARS: Final = 16
#: What is served, by the end of its name. Other files of the package stay there.
_TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def console_pages() -> tuple[Operation, ...]:
    """Read once in the life of a process."""
    folder = resources.files("flotilla").joinpath("console")
    files = dict(_served(folder, ""))
    digest = sha256(b"".join(name.encode() + body for name, body in sorted(files.items()))).hexdigest()[:_DIGEST_CHARS]
    html = folder.joinpath(_PAGE).read_bytes().replace(_DIGEST_MARK, digest.encode())
    index = _File(html, "text/html; charset=utf-8", "no-cache")
    rows = [page("/console", index.answer), page("/console/", _leave_slash)]
    for name, body in files.items():
        file = _File(body, _TYPES[name[name.rindex(".") :]], "private, max-age=31536000, immutable")
        rows.append(page(f"/console/{digest}/{name}", file.answer))
    return tuple(rows)


def _served(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            yield from _served(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(tuple(_TYPES)):
            yield prefix + entry.name, entry.read_bytes()


class _File:
    def __init__(self, body: bytes, media_type: str, caching: str) -> None:
        self._body = body
        self._media_type = media_type
        self._tag = f'"{sha256(body).hexdigest()[:_DIGEST_CHARS]}"'
        self._headers = {**PAGE_HEADERS, "Cache-Control": caching, "ETag": self._tag}

    async def answer(self, call: Call) -> Response:
        known = [tag.strip().removeprefix("W/") for tag in call.headers.get("if-none-match", "").split(",")]
        if self._tag in known:
            return Response(b"", self._media_type, 304, self._headers)
        return Response(self._body, self._media_type, headers=self._headers)


async def _leave_slash(_: Call) -> Response:
    return Response(b"", "text/plain", 302, headers={"Location": "/console"})
