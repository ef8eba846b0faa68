"""Chromium, through its driver: owns the process of chromedriver, one session (WebDriver, W3C), and the queries to a page."""
import base64
import json
import os
import shutil
import urllib.error
import urllib.request

from rig.process import Process
from rig.sockets import free_port
from rig.waiting import RigError, SLOW, comes_true, wait_until

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
# Never a proxy, whatever the environment says: all of it is on loopback.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Browser(Process):
    async def open(self, directory):
        if not shutil.which("chromedriver") or not shutil.which("chromium"):
            raise RigError("no chromium or chromedriver program: install chromium and chromium-driver")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        await self.launch(["chromedriver", f"--port={self.port}"], death="TERM")
        await wait_until(self.is_there, 30 * SLOW, "chromedriver answers")
        words = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
                 "--no-proxy-server", "--disable-background-networking", f"--user-data-dir={directory}/chromium"]
        if os.getuid() == 0:            # Chromium's sandbox refuses root; it only loads our own page
            words.append("--no-sandbox")
        found = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"args": words, "binary": shutil.which("chromium")},
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.url += f"/session/{found['sessionId']}"

    def is_there(self):
        try:
            return self.call("GET", "/status")["ready"]
        except OSError:
            return False

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method, headers={"Content-Type": "application/json"},
                                         data=None if body is None else json.dumps(body).encode())
        try:
            with DIRECT.open(request, timeout=60 * SLOW) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RigError(f"the browser: {path}: {json.load(error)['value'].get('message', '')[:400]}") from error

    def close(self):
        self.call("DELETE", "")

    # --- pages ---

    def go(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *args):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def run_async(self, script, *args):
        """The script calls the last of its arguments."""
        return self.call("POST", "/execute/async", {"script": script, "args": list(args)})

    def chrome(self, command, **parameters):
        """A command of the DevTools protocol."""
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        self.call("POST", f"/element/{self.find(selector)}/clear", {})
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def press(self, key):
        """Presses a key, wherever the focus is."""
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": [
            {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}]})

    def text(self, selector="body"):
        return self.run("return (document.querySelector(arguments[0]) || {innerText: ''}).innerText", selector)

    async def says(self, selector, part, seconds=20):
        return await comes_true(lambda: part in self.text(selector), seconds * SLOW, 0.2)

    def resize(self, width):
        self.chrome("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)

    def colours(self, scheme):
        self.chrome("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def complaints(self):
        """Returns the console's messages since the last call."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.chrome("Page.captureScreenshot", captureBeyondViewport=True)["data"]))
