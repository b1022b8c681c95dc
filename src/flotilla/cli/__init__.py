"""L6: the `flotilla` command. Each verb is a module of its own; `app.py` puts them together."""
