"""A headless Chromium, driven through chromedriver by the W3C WebDriver protocol, which is JSON over HTTP."""

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
MISSING = None if CHROMIUM and DRIVER else "needs Chromium and chromedriver"
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_VIOLATIONS = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => violations.push(event.blockedURI), true);
"""


class Browser:
    """One session: a window without address bar or extensions."""

    def __init__(self, address):
        self._address = address

    def _send(self, path, content=None, method="POST"):
        data = None if method in ("GET", "DELETE") else json.dumps(content or {}).encode()
        request = urllib.request.Request(f"{self._address}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with _NO_PROXY.open(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from error

    def start(self, profile):
        options = {"binary": CHROMIUM, "args": [*_FLAGS, f"--user-data-dir={profile}", "--window-size=1200,900"]}
        session = self._send(
            "/session",
            {
                "capabilities": {
                    "alwaysMatch": {
                        "browserName": "chrome",
                        "goog:chromeOptions": options,
                        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
                    }
                }
            },
        )
        self._address += f"/session/{session['sessionId']}"
        self.devtools("Page.addScriptToEvaluateOnNewDocument", source=_VIOLATIONS)
        self._send("/url", {"url": "about:blank"})  # the first window asks for pages of the browser's own
        self.requested()

    def quit(self):
        self._send("", method="DELETE")

    def open(self, path):
        """Open a page anew; from another one, because it may come back too early from a page to the same page."""
        for url in ("about:blank", path.as_uri()):
            self._send("/url", {"url": url})

    def run(self, script, *arguments):
        """The value that the body of a JavaScript function returns."""
        return self._send("/execute/sync", {"script": script, "args": list(arguments)})

    def press(self, *keys):
        """Press keys one after another, as from a keyboard."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._send("/actions", {"actions": [{"type": "key", "id": "keys", "actions": strokes}]})

    def devtools(self, command, **parameters):
        return self._send("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def console(self):
        """What the console was told since it was last read."""
        return [entry["message"] for entry in self._send("/se/log", {"type": "browser"})]

    def requested(self):
        """The addresses that were asked for since they were last read."""
        events = (json.loads(entry["message"])["message"] for entry in self._send("/se/log", {"type": "performance"}))
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def size(self, width, height=900):
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def media(self, medium="", **features):
        pairs = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.devtools("Emulation.setEmulatedMedia", media=medium, features=pairs)


@contextmanager
def chromium(profile):
    """A browser whose profile is an empty folder."""
    with subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, text=True) as driver:
        try:
            port = next(match[1] for line in driver.stdout if (match := re.search(r"successfully on port (\d+)", line)))
            browser = Browser(f"http://127.0.0.1:{port}")
            browser.start(profile)
            try:
                yield browser
            finally:
                browser.quit()
        finally:
            driver.terminate()
