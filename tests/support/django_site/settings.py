"""What `DJANGO_SETTINGS_MODULE` names. Where the databases and the server are is told by the environment."""

import os
import sys
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql

pymysql.install_as_MySQLdb()
# Its parts, too: `MySQLdb.converters` would be read anew, with errors of its own, which take the place of pymysql's for
# all that is in the process.
sys.modules |= {f"MySQLdb.{part}": sys.modules[f"pymysql.{part}"] for part in ("constants", "converters", "err")}
_at = urlsplit(os.environ["SITE_MYSQL"])

SECRET_KEY = "tests"
USE_TZ = True
INSTALLED_APPS = ["django_tasks", "tarry.client.django"]
DATABASES: dict[str, Any] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["SITE_SQLITE"],
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    },
    "shop": {
        "ENGINE": "django.db.backends.mysql",
        "HOST": _at.hostname,
        "PORT": _at.port,
        "USER": unquote(_at.username or ""),
        "PASSWORD": unquote(_at.password or ""),
        "NAME": _at.path[1:],
    },
}
TARRY = {"URL": os.environ["SITE_TARRY"]}
_BACKEND = "tarry.client.django.tasks.TarryBackend"
_QUEUES = ["default", "mails", "urgency"]
TASKS: dict[str, Any] = {
    "default": {"BACKEND": _BACKEND, "QUEUES": _QUEUES, "OPTIONS": {"PREFIX": "on_commit"}},
    "outbox": {
        "BACKEND": _BACKEND,
        "QUEUES": _QUEUES,
        "OPTIONS": {"DATABASE": "shop", "OUTBOX": True, "PREFIX": "outbox"},
    },
    "patient": {"BACKEND": _BACKEND, "OPTIONS": {"PREFIX": "patient", "MAX_ATTEMPTS": 3, "RETRY_AFTER": 0.05}},
    "unheard": {"BACKEND": _BACKEND, "OPTIONS": {"PREFIX": "unheard", "URL": "http://127.0.0.1:9", "DEADLINE": 0.1}},
}
