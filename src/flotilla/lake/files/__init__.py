"""Where files of a lake are: on this machine or in an object store, behind the same calls."""
