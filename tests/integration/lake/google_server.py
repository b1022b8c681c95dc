"""Google's object store for tests: `python -m tests.integration.lake.google_server PORT`.

Google's interface of XML is Amazon's with other names of headers, so this is Amazon's server behind a change of names.
An object is made only if there is none when its generation is told to match 0.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

_GOOGLE, _AMAZON = "HTTP_X_GOOG_", "HTTP_X_AMZ_"
_GENERATION = "HTTP_X_GOOG_IF_GENERATION_MATCH"
#: The server asks for one, and does not check it.
_SIGNED = "AWS4-HMAC-SHA256 Credential=somebody/20300101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"

_amazon = DomainDispatcherApplication(lambda _: create_backend_app("s3"))


def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    generation = environ.pop(_GENERATION, None)
    if generation is not None:
        assert generation == "0", "objects are never replaced on a condition"
        environ["HTTP_IF_NONE_MATCH"] = "*"
    for name in [name for name in environ if name.startswith(_GOOGLE)]:
        environ[_AMAZON + name.removeprefix(_GOOGLE)] = environ.pop(name)
    environ["HTTP_AUTHORIZATION"] = _SIGNED
    answered: Iterable[bytes] = _amazon(environ, start)
    return answered


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True)
