"""Pages that a node serves to browsers, as files of this package.

A page runs its own scripts and connects to this node only, has no script or style within it, and is shown in no frame.
"""

from importlib import resources
from typing import Final

from flotilla.frontends.http.framework.operation import Call, Operation, Parameter, page
from flotilla.frontends.http.framework.response import Response

PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TYPES: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css"}


def file_page(path: str, file: str, query: tuple[Parameter, ...] = ()) -> Operation:
    """`query` is what the page's own script reads."""
    content = resources.files(__package__).joinpath(file).read_bytes()
    media_type = f"{_TYPES[file.rpartition('.')[2]]}; charset=utf-8"

    async def serve(_: Call) -> Response:
        return Response(content, media_type, headers=PAGE_HEADERS)

    return page(path, serve, query)
