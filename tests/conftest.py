"""Settings for every test, on every machine: one profile for hypothesis, and Ctrl-C that is heard."""

import signal

from hypothesis import settings

# Derandomized, so that a red run is red again; the simulator is where new seeds are drawn.
settings.register_profile("flotilla", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("flotilla")

# A shell starts what runs in the background with the signal ignored, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
