"""The configuration of the Django application."""

# Django has no types of its own.
# pyright: standard, reportMissingTypeStubs=false

from django.apps import AppConfig


class TarryConfig(AppConfig):
    """The application. Settings are read when they are first needed: see `configuration`."""

    name = "tarry.client.django"
    label = "tarry"
    verbose_name = "Tarry"
