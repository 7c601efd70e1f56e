"""What the log holds, and above all what it does not."""
import json
import urllib.error

import grpc
import pytest

from conftest import REAL_MODEL, make_config

SECRET = "xyzzy-secret-prompt"


def test_probes_are_quiet(start_daemon):
    daemon = start_daemon(make_config())
    before = daemon.log()
    for path in ("/health/ready", "/health/live", "/metrics"):
        for _ in range(100):
            daemon.get(path)
    daemon.get("/v1/models")  # a line of its own, so that the log is seen to be written
    daemon.wait_for(lambda: "/v1/models" in daemon.log(), "a log line")
    assert len(daemon.log()[len(before):].splitlines()) == 1


def test_prompts_stay_out_of_the_log_at_debug_too(start_daemon, stubs):
    if not REAL_MODEL.exists():
        pytest.fail(f"{REAL_MODEL} is missing: run tools/fetch_model.sh")
    pb, inference_grpc = stubs[0], stubs[1]
    daemon = start_daemon({**make_config(REAL_MODEL, "smollm2", context_length=512),
                           "log": {"level": "debug", "format": "json"}})
    chat = {"model": "smollm2", "messages": [{"role": "user", "content": SECRET}], "max_tokens": 3}
    answer = daemon.post("/v1/chat/completions", chat)["choices"][0]["message"]["content"]
    for broken in ({**chat, "temperature": -1}, {**chat, "messages": [{"role": SECRET}]},
                   {**chat, "messages": [{"role": "user", "content": SECRET * 1000}]}):
        with pytest.raises(urllib.error.HTTPError):
            daemon.post("/v1/chat/completions", broken)
    with grpc.insecure_channel(daemon.grpc) as channel:
        stub = inference_grpc.InferenceStub(channel)
        list(stub.Generate(pb.GenerateRequest(text=SECRET, sampling=pb.SamplingParams(max_tokens=3, stop=[SECRET]))))
        stub.Tokenize(pb.TokenizeRequest(text=SECRET))
        for sampling in (pb.SamplingParams(max_tokens=-3), pb.SamplingParams(stop=[SECRET * 100])):
            with pytest.raises(grpc.RpcError):
                list(stub.Generate(pb.GenerateRequest(text=SECRET, sampling=sampling)))
    assert daemon.stop() == 0
    log = daemon.log()
    assert SECRET not in log
    assert answer == "" or len(answer) < 8 or answer not in log
    lines = log.splitlines()
    assert len(lines) > 10
    for line in lines:
        entry = json.loads(line)
        assert set(entry) == {"time", "level", "thread", "message"}, line
