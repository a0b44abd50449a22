"""A headless Chromium, driven by the DevTools protocol over a pipe. Needs only Python's standard library."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time


class Browser:
    """A browser with one page. Keeps console messages and network requests."""

    def __init__(self, width=1280, height=900):
        self.profile = tempfile.mkdtemp()
        to_browser, ours = os.pipe()
        theirs, from_browser = os.pipe()

        def connect():
            # The browser reads from descriptor 3 and writes to 4. High numbers first, to overwrite neither end.
            reader, writer = os.dup(to_browser), os.dup(from_browser)
            high_reader, high_writer = os.dup2(reader, 40), os.dup2(writer, 41)
            os.dup2(high_reader, 3)
            os.dup2(high_writer, 4)

        command = [
            "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
            "--disable-background-networking", "--hide-scrollbars", f"--user-data-dir={self.profile}", "about:blank",
        ]
        self.process = subprocess.Popen(
            command, preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.writer, self.reader = os.fdopen(ours, "wb", 0), theirs
        self.buffer, self.number, self.session = b"", 0, None
        self.complaints, self.requests, self.loads = [], [], 0
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.writer.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.reader, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        self.note(message)
        return message

    def note(self, message):
        method, details = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(details["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(details["args"])[:500])
        elif method == "Log.entryAdded":
            self.complaints.append(details["entry"]["text"])
        elif method == "Page.loadEventFired":
            self.loads += 1
        elif method == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])

    def resize(self, width, height, is_phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if is_phone else 1, mobile=is_phone)

    def prefer(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address):
        """Loads the page, and waits until it has drawn. Returns the elapsed seconds."""
        start = time.monotonic()
        # Another fragment of the same page would not load it again.
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)
        self.wait('document.readyState === "complete" && document.documentElement.classList.contains("ready")', 120)
        self.frame()
        return time.monotonic() - start

    def open_without_script(self, address):
        self.call("Emulation.setScriptExecutionDisabled", value=True)
        loads = self.loads
        self.call("Page.navigate", url=address)
        while self.loads == loads:
            self.receive()
        self.call("Emulation.setScriptExecutionDisabled", value=False)

    def frame(self):
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def run(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {json.dumps(answer['exceptionDetails'])[:500]}")
        return answer["result"].get("value")

    def wait(self, expression, seconds=10):
        end = time.monotonic() + seconds
        while not self.run(expression):
            if time.monotonic() > end:
                raise AssertionError(f"never came true: {expression}")
            time.sleep(0.02)

    def box(self, selector):
        return self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            " const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")

    def press(self, x, y, to=None):
        def mouse(kind, x, y):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1, buttons=1)
        mouse("mousePressed", x, y)
        if to:
            mouse("mouseMoved", (x + to[0]) / 2, to[1])
            mouse("mouseMoved", *to)
        mouse("mouseReleased", *(to or (x, y)))
        self.frame()

    def click(self, selector, across=0.5, down=None):
        left, top, width, height = self.box(selector)
        self.press(left + width * across, top + (height / 2 if down is None else down))

    def key(self, name, shift=False):
        codes = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Escape": 27, "Backspace": 8, "Home": 36, "End": 35, "Tab": 9}
        text = {"text": "\r"} if name == "Enter" else {"text": name} if len(name) == 1 else {}
        common = {"key": name, "windowsVirtualKeyCode": codes.get(name, ord(name[0].upper())), "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)
        self.frame()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.frame()

    def picture(self, path, whole=False):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
