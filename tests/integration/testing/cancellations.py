"""Cancels a coroutine at one chosen suspension, for each of its suspensions."""

import asyncio


class Cancelled:
    """Makes calls that are cancelled at their `place`-th suspension; `is_over`: the last one has not so many."""

    def __init__(self):
        self.place = 0
        self.is_over = False

    def again(self):
        """Goes on to the next suspension. False: the last call came to its end untouched."""
        self.place += 1
        return not self.is_over

    async def run(self, call):
        """The result of the call; None if it was cancelled."""
        self.is_over = True
        try:
            return await asyncio.create_task(self._watched(call))
        except asyncio.CancelledError:
            return None

    async def _watched(self, call):
        return await _Watched(call, self)


class _Watched:
    def __init__(self, call, tries):
        self._call = call
        self._tries = tries

    def __await__(self):
        inner = self._call.__await__()
        seen = 0
        value, error = None, None
        while True:
            try:
                waits_for = inner.send(value) if error is None else inner.throw(error)
            except StopIteration as end:
                return end.value
            seen += 1
            if seen == self._tries.place:
                self._tries.is_over = False
                asyncio.current_task().cancel()
            value, error = None, None
            try:
                value = yield waits_for
            except BaseException as thrown:
                error = thrown
