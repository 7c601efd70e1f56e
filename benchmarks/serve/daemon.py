"""A daemon of this build on ports of its own, for as long as a measurement takes."""
import contextlib
import json
import re
import signal
import subprocess
import time
import urllib.request


class Daemon:
    def __init__(self, process, addresses):
        self.process = process
        self.grpc, self.http = addresses["grpc"], addresses["http"]

    def metrics(self):
        """The sum over the labels of each sample of /metrics."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=30) as response:
            page = response.read().decode()
        sums = {}
        for line in page.splitlines():
            if line.startswith("#"):
                continue
            series, value = line.rsplit(" ", 1)
            name = re.match(r"\w+", series)[0]
            sums[name] = sums.get(name, 0.0) + float(value)
        return sums


@contextlib.contextmanager
def running(skipjack, folder, model):
    """`model`: the one entry of models: in its configuration."""
    config, ready = folder / "config.yaml", folder / "ready"
    ready.unlink(missing_ok=True)
    settings = {
        "server": {"grpc": {"listen": "127.0.0.1:0"}, "http": {"listen": "127.0.0.1:0"},
                   "limits": {"max_queued": 100000}},
        "models": [model],
        "log": {"level": "warn"},
    }
    config.write_text(json.dumps(settings))  # JSON is YAML
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([skipjack, "serve", "--config", config, "--ready-file", ready], stdout=log,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 120
            while not ready.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the daemon did not start: {(folder / 'log').read_text()[-2000:]}")
                time.sleep(0.05)
            yield Daemon(process, dict(line.split("=", 1) for line in ready.read_text().splitlines()))
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
