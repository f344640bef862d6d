"""The checker of a fault campaign: it imports nothing else of Tarry, and reads only the history.

A package of its own, so that it cannot share a bug with the service, the client or the harness.
"""
