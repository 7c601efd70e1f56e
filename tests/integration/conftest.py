"""A real daemon over real sockets, driven by the clients that users have."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request

import grpc
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("SKIPJACK_BINARY", ROOT / "build/release/bin/skipjack"))
FIXTURES = ROOT / "tests/fixtures"
TINY_MODEL = FIXTURES / "gguf/llama.Q4_0.gguf"
REAL_MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
START_SECONDS = 120


@pytest.fixture(scope="session")
def stubs(tmp_path_factory):
    """The generated Python modules of our protos: (inference_pb2, inference_grpc, admin_pb2, admin_grpc)."""
    out = tmp_path_factory.mktemp("proto")
    protos = ["skipjack/v1/inference.proto", "skipjack/v1/admin.proto"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}", f"--python_out={out}",
                    f"--grpc_python_out={out}", *protos], check=True)
    sys.path.insert(0, str(out))
    from skipjack.v1 import admin_pb2, admin_pb2_grpc, inference_pb2, inference_pb2_grpc
    return inference_pb2, inference_pb2_grpc, admin_pb2, admin_pb2_grpc


class Scrape:
    """One page of /metrics: all of it from one moment."""

    def __init__(self, page):
        self.types, self.samples = {}, []
        for line in page.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.types[name] = kind
            elif line and not line.startswith("#"):
                series, value = line.rsplit(" ", 1)
                name, _, labels = series.partition("{")
                pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
                self.samples.append((name, pairs, float(value)))

    def metric(self, name, **labels):
        values = [value for sample, pairs, value in self.samples if sample == name and labels.items() <= pairs.items()]
        assert values, f"no metric {name} {labels}"
        return sum(values)


class Daemon:
    """One `skipjack serve` process on ports of its own."""

    def __init__(self, folder, config):
        self.folder = pathlib.Path(folder)
        self.config_path = self.folder / "config.yaml"
        self.config_path.write_text(json.dumps(config))  # JSON is YAML
        self.ready_file = self.folder / "ready"
        self.log_path = self.folder / "log"
        self.log_file = self.log_path.open("wb")
        self.process = subprocess.Popen(
            [BINARY, "serve", "--config", self.config_path, "--ready-file", self.ready_file],
            stdout=self.log_file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.grpc = self.http = None

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while not self.ready_file.exists():
            assert self.process.poll() is None, f"the daemon ended: {self.log()}"
            assert time.monotonic() < deadline, f"not ready in time: {self.log()}"
            time.sleep(0.02)
        addresses = dict(line.split("=", 1) for line in self.ready_file.read_text().splitlines())
        self.grpc, self.http = addresses["grpc"], addresses["http"]
        return self

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.http}{path}", timeout=30) as response:
            return response.read().decode()

    def post(self, path, payload):
        request = urllib.request.Request(f"http://{self.http}{path}", json.dumps(payload).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.load(response)

    def scrape(self):
        return Scrape(self.get("/metrics"))

    def metric(self, name, **labels):
        """The sum of the samples of `name` that carry these labels."""
        return self.scrape().metric(name, **labels)

    def wait_for(self, condition, what, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, f"the daemon ended: {self.log()}"
            assert time.monotonic() < deadline, f"{what} did not come about"
            time.sleep(0.01)

    def wait_idle(self):
        self.wait_for(lambda: self.metric("skipjack_live_requests") == 0, "an idle daemon")
        page = self.scrape()
        assert page.metric("skipjack_requests_running") == 0
        assert page.metric("skipjack_requests_waiting") == 0
        assert page.metric("skipjack_kv_blocks", state="used") == 0

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def stop(self, timeout=60):
        if self.process.poll() is None:
            self.terminate()
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        self.log_file.close()
        return self.process.returncode


def make_config(model=TINY_MODEL, name="tiny", server=None, **entry):
    config = {
        "server": {"grpc": {"listen": "127.0.0.1:0"}, "http": {"listen": "127.0.0.1:0"}, "drain_grace": "20s"},
        "models": [{"name": name, "path": str(model), "cache_dir": "none", **entry}],
    }
    config["server"].update(server or {})
    return config


@pytest.fixture
def start_daemon(tmp_path):
    """Starts daemons that are stopped, and must stop in order, when the test ends."""
    with contextlib.ExitStack() as stack:
        count = 0

        def start(config, wait=True):
            nonlocal count
            folder = tmp_path / f"daemon{count}"
            folder.mkdir()
            count += 1
            daemon = Daemon(folder, config)
            stack.callback(daemon.stop)
            return daemon.wait_ready() if wait else daemon

        yield start


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    """The tiny model, shared by the tests that leave it as they found it."""
    running = Daemon(tmp_path_factory.mktemp("daemon"), make_config(
        server={"limits": {"max_queued": 2048}}, scheduler={"max_sequences": 32}))
    try:
        yield running.wait_ready()
    finally:
        assert running.stop() == 0, running.log()


@pytest.fixture(scope="session")
def real_daemon(tmp_path_factory):
    """SmolLM2-135M-Instruct."""
    if not REAL_MODEL.exists():
        pytest.fail(f"{REAL_MODEL} is missing: run tools/fetch_model.sh")
    running = Daemon(tmp_path_factory.mktemp("real"), make_config(REAL_MODEL, "smollm2", context_length=2048))
    try:
        yield running.wait_ready()
    finally:
        assert running.stop() == 0, running.log()


@pytest.fixture(scope="session")
def one_seat_daemon(tmp_path_factory):
    """SmolLM2, one sequence at a time in small steps: slow enough that clients can be faster."""
    if not REAL_MODEL.exists():
        pytest.fail(f"{REAL_MODEL} is missing: run tools/fetch_model.sh")
    running = Daemon(tmp_path_factory.mktemp("one_seat"), make_config(
        REAL_MODEL, "smollm2", context_length=2048, scheduler={"max_sequences": 1, "max_batch_tokens": 8},
        kv={"prefix_cache": False}))
    try:
        yield running.wait_ready()
    finally:
        assert running.stop() == 0, running.log()


@pytest.fixture
def inference(daemon, stubs):
    with grpc.insecure_channel(daemon.grpc) as channel:
        yield stubs[1].InferenceStub(channel)


@pytest.fixture
def golden():
    return json.loads((FIXTURES / "goldens/llama.Q4_0.gguf.json").read_text())
