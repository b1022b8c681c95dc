"""Verbs on stored messages: single ones, and those that wait."""
