"""Scripted clusters with recorded output, and the hand-turned cluster that plays them.

A scenario is a text file beside this one; `script` says how it is written and `play` what its commands do.
`python -m tests.scenarios.rewrite` records the output anew: read the difference before keeping it.
"""
