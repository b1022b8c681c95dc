"""The common base of all messages."""

from typing import TYPE_CHECKING, Any

from flotilla.types.ids import Offset
from flotilla.types.records import Headers


class AnyMessage:
    """A message of any consumer: `Message`, `QueueMessage`, `AsyncQueueMessage` and `DetachedMessage` derive from it.

    (topic, partition, offset) identifies it for ever.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def topic(self) -> str: ...
        @property
        def partition(self) -> int: ...
        @property
        def offset(self) -> Offset: ...
        @property
        def payload(self) -> bytes: ...
        @property
        def key(self) -> bytes | None: ...
        @property
        def headers(self) -> Headers: ...
        @property
        def timestamp_ms(self) -> int: ...
        @property
        def priority(self) -> int: ...
        @property
        def content_type(self) -> int: ...

    @property
    def text(self) -> str:
        """The payload as UTF-8 text. Raises UnicodeDecodeError."""
        return self.payload.decode()

    def json(self) -> Any:
        """The payload read as JSON. Raises ValueError."""
        from json import loads

        return loads(self.payload)

    def header(self, name: str) -> bytes | None:
        """The first header of this name; None: there is none. All of them are in `headers`."""
        for each, value in self.headers:
            if each == name:
                return value
        return None
