"""Deliberate bugs in what only the simulation of the whole product runs. Each must make a judge speak."""
