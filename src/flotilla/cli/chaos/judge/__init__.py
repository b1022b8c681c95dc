"""The books of a chaos run: what clients saw, the rules that it must keep, and errors planted to test the rules."""
