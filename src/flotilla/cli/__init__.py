"""L6: the `flotilla` command.

One module per noun; commands with several modules have a folder. `app.py` puts them together, `terminal/` is what
they share.
"""
