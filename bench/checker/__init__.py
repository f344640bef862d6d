"""The judge of a fault campaign: it imports nothing else of Tarry, and reads nothing but the history.

A room of its own, so that no fault of the service, of its client or of the harness can be in the judge as well.
"""
