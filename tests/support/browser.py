"""A real browser for tests: the system's Chromium, driven by Playwright."""

import os
import shutil

from playwright.sync_api import Browser, Playwright

from support.servers import skip_or_fail


def program() -> str:
    """Chromium's path; skips or fails the test where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    return found or skip_or_fail("no chromium on PATH")


def launch(playwright: Playwright) -> Browser:
    """Starts a headless browser. As root it runs without a sandbox, which is safe since it loads only our pages."""
    sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
    return playwright.chromium.launch(executable_path=program(), args=[*sandbox, "--disable-dev-shm-usage"])
