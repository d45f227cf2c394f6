"""A headless Chromium for tests of pages, driven by selenium."""

import json
import shutil
import time
from contextlib import contextmanager
from unittest.mock import patch

from selenium import webdriver
from selenium.webdriver import ActionChains

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
MISSING = None if CHROMIUM and DRIVER else "needs Chromium and chromedriver"
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1200,900",
)  # fmt: skip
_VIOLATIONS = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => violations.push(event.blockedURI), true);
"""


class Browser(webdriver.Chrome):
    """One window without extensions, with what tests of a report ask of it."""

    def open(self, path, address=""):
        """Open a page anew at an address in it; from another one, because it may come back too early from the same."""
        loaded = "return location.href.split('#')[0] === arguments[0] && document.readyState === 'complete'"
        for where, part in (("about:blank", ""), (path.as_uri(), address)):
            self.get(where + part)
            self.wait_for(loaded, where)

    def press(self, *keys):
        """Press keys one after another, as from a keyboard."""
        ActionChains(self).send_keys(*keys).perform()

    def wait_for(self, script, *arguments):
        """Return the first value of a script that is true, within a minute."""
        for _ in range(1200):
            if value := self.execute_script(script, *arguments):
                return value
            time.sleep(0.05)
        raise AssertionError(script)

    def expect(self, script, value):
        """Wait until a script returns a value, for at most ten seconds; for what follows an event of the page."""
        for _ in range(200):
            if (shown := self.execute_script(script)) == value:
                return
            time.sleep(0.05)
        assert shown == value, script

    def go(self, id_):
        """Show the view that contains an element, as a link to it does."""
        self.execute_script("location.hash = arguments[0]", id_)
        self.wait_for("return document.getElementById(arguments[0]).checkVisibility()", id_)

    def devtools(self, command, **parameters):
        return self.execute_cdp_cmd(command, parameters)

    def console(self):
        """Return the messages of the console since it was last read."""
        return [entry["message"] for entry in self.get_log("browser")]

    def requested(self):
        """Return the addresses that were requested since they were last read."""
        events = (json.loads(entry["message"])["message"] for entry in self.get_log("performance"))
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def resize(self, width, height=900):
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def emulate(self, medium="", **features):
        """Show the page as on a medium ("print"), and with features such as ``prefers_color_scheme``."""
        pairs = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.devtools("Emulation.setEmulatedMedia", media=medium, features=pairs)


@contextmanager
def chromium(profile):
    """Open a browser whose profile is an empty folder."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with patch.dict("os.environ", no_proxy="localhost,127.0.0.1"):  # the driver is on this machine
        browser = Browser(options, webdriver.ChromeService(DRIVER))
    with browser:
        browser.devtools("Page.addScriptToEvaluateOnNewDocument", source=_VIOLATIONS)
        browser.get("about:blank")  # the first window asks for pages of the browser's own
        browser.requested()
        yield browser
