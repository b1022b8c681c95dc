"""Deliberate bugs, one at a time. A simulator that misses one of them proves too little."""
