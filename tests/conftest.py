"""What holds for every test: one profile for hypothesis, the same on every machine."""

from hypothesis import settings

# Derandomized, so that a red run is red again; the simulator is where new seeds are drawn.
settings.register_profile("flotilla", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("flotilla")
