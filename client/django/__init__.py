"""Tarry in a Django project: `INSTALLED_APPS = [..., "tarry.client.django"]`, and `TARRY = {...}` beside it.

    from tarry.client.django import publish_on_commit, publish, client

    publish_on_commit("orders", {"order": 7}, delay="30m")   # any database: sent when the transaction has committed
    publish("orders", {"order": 7}, delay="30m")             # Tarry's own MySQL: committed with your rows

Nothing else of Tarry imports Django.
"""

from .sending import client, publish, publish_on_commit

__all__ = ["client", "publish", "publish_on_commit"]
