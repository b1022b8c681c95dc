"""The metadata index of gRPC calls, in their metadata: a client sends the last one it got, to whichever node it calls.

An answer then rests on changes of topics and groups up to there, also when another node made them.
"""

from typing import Final

from flotilla.frontends.grpc.errors import Context, fail, time_left_ms
from flotilla.frontends.index_text import read_index
from flotilla.gateway.gateway import Gateway
from flotilla.types.errors import FlotillaError

KEY: Final = "flotilla-metadata-index"


async def reach(gateway: Gateway, context: Context) -> None:
    """Waits until answers rest on what the client has seen. Ends the call if they cannot."""
    text = next((value for name, value in context.invocation_metadata() or () if name == KEY), None)
    if text is not None:
        try:
            await gateway.reach(read_index(text), timeout_ms=time_left_ms(context))
        except FlotillaError as error:
            await fail(context, error)


def report(gateway: Gateway, context: Context) -> None:
    """Sends the index with the answer."""
    index = gateway.metadata_index
    if index:
        context.set_trailing_metadata(((KEY, str(index)),))
