"""The fault campaign: real servers on a private database, a load, faults by seed, and a history for the checker.

A room of its own, for it is one program of many nouns. Run as a module.
"""
