"""The application, as Django lists it."""

# Django has no types of its own.
# pyright: standard, reportMissingTypeStubs=false

from django.apps import AppConfig


class TarryConfig(AppConfig):
    """Settings are read when they are first needed: see `configuration`."""

    name = "tarry.client.django"
    label = "tarry"
    verbose_name = "Tarry"
