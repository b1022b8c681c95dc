"""The delay before a retry: doubling, jittered, and at least as long as the broker asks for."""

from random import Random

from flotilla.types.errors import FlotillaError, NotLeaderError
from flotilla.types.slotted import frozen

_DOUBLINGS_MAX = 16


def doubled_ms(first_ms: int, doublings: int, most_ms: int) -> int:
    """A delay after some doublings, up to a bound."""
    return min(first_ms << min(doublings, _DOUBLINGS_MAX), most_ms)


@frozen
class Backoff:
    first_ms: int = 20
    most_ms: int = 500

    def delay_ms(self, attempts: int, error: FlotillaError, chance: Random) -> int:
        """The delay after this many attempts, the last of which failed with `error`.

        Half of it is random, so that clients which failed together do not return together. A redirect to a leader
        is followed at once, but only the first time: two brokers may name each other.
        """
        assert attempts > 0
        if attempts == 1 and isinstance(error, NotLeaderError) and error.address:
            return 0
        whole_ms = doubled_ms(self.first_ms, attempts - 1, self.most_ms)
        return max(chance.randint(whole_ms // 2, whole_ms), error.retry_after_ms)
