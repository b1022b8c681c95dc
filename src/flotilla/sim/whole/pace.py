"""How fast clients work: in bursts with pauses between them.

Within a burst calls follow each other closely and overlap those of other clients. A steady load would cost the most and
show the least: faults strike by the clock, so most of its calls would meet none.
"""

import asyncio
from random import Random
from typing import Final

#: How often a burst ends,
_PAUSES: Final = 0.2
#: and how long the pause is then, on average.
_PAUSE_S: Final = 3.0


async def think(chance: Random, mean_s: float) -> None:
    """Between two turns of a client; `mean_s` is the mean within a burst."""
    mean_s = _PAUSE_S if chance.random() < _PAUSES else mean_s
    await asyncio.sleep(chance.random() * 2 * mean_s)
