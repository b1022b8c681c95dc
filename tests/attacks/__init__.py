"""Attacks on a real node, with the figures of an honest client meanwhile: `make attack`."""
