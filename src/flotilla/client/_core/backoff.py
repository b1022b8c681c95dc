"""How long to wait before something is tried again: doubling, jittered, and as long as the broker asks for."""

from dataclasses import dataclass
from random import Random

from flotilla.types.errors import FlotillaError, NotLeaderError

_DOUBLINGS_MAX = 16


@dataclass(frozen=True, slots=True)
class Backoff:
    first_ms: int = 20
    most_ms: int = 500

    def delay_ms(self, attempts: int, error: FlotillaError, chance: Random) -> int:
        """The wait after so many attempts, the last of which ended with `error`.

        Half of it is left to chance, so that clients which failed together do not come back together. Whoever
        is told the leader goes there at once, but only the first time: two brokers may each name the other.
        """
        assert attempts > 0
        if attempts == 1 and isinstance(error, NotLeaderError) and error.address:
            return 0
        whole_ms = min(self.first_ms << min(attempts - 1, _DOUBLINGS_MAX), self.most_ms)
        return max(chance.randint(whole_ms // 2, whole_ms), error.retry_after_ms)
