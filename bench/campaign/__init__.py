"""The fault campaign: real servers on a private database, a load, faults by seed, and a history for the checker.

A package of its own, since it is one program of many parts. Run it as a module.
"""
