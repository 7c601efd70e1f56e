"""What bounds a daemon as a whole: its configuration reaches both front ends, and its metrics show what was refused."""
import contextlib
import json
import pathlib
import resource
import subprocess
import urllib.error
import urllib.request

import grpc
import pytest

from conftest import BINARY, make_config


def post(daemon, path, payload, headers=None):
    """(status, document) of one answer."""
    request = urllib.request.Request(f"http://{daemon.http}{path}", json.dumps(payload).encode(),
                                     {"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@contextlib.contextmanager
def open_files_limited_to(soft):
    """What is started meanwhile begins with this soft limit."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_more_prompts_than_the_queue_holds_are_a_mistake_not_an_overload(start_daemon):
    daemon = start_daemon(make_config(server={"limits": {"max_queued": 2}}))
    payload = {"model": "tiny", "prompt": [[1, 2], [3, 4]], "max_tokens": 2}
    assert post(daemon, "/v1/completions", payload)[0] == 200
    payload["prompt"].append([5, 6])
    status, body = post(daemon, "/v1/completions", payload)
    assert status == 400, body
    assert "at most 2 prompts, got 3" in body["error"]["message"]
    assert body["error"]["param"] == "prompt"
    daemon.wait_idle()


def test_both_front_ends_bound_what_waits(start_daemon, stubs):
    pb, inference_grpc = stubs[0], stubs[1]
    daemon = start_daemon(make_config(server={"limits": {"max_request_bytes": "64KiB", "max_pending_bytes": "64KiB"}}))
    status, body = post(daemon, "/v1/completions", {"model": "tiny", "prompt": "x" * 70000})
    assert status == 413, body
    with grpc.insecure_channel(daemon.grpc) as channel:
        stub = inference_grpc.InferenceStub(channel)
        for request in (pb.GenerateRequest(text="x" * 70000), pb.GenerateRequest(text="x", tenant="a b")):
            with pytest.raises(grpc.RpcError):
                list(stub.Generate(request))
    assert daemon.metric("skipjack_grpc_requests_total", method="Generate", code="INVALID_ARGUMENT") == 1
    assert daemon.metric("skipjack_http_pending_body_bytes") == 0
    assert daemon.metric("skipjack_http_accepted_connections_total") >= 2
    assert daemon.metric("skipjack_http_accept_errors_total") == 0


def test_tenants_and_salts_part_the_prefix_cache_over_http(daemon):
    prompt = [7 + i % 50 for i in range(64)]

    def cached(salt=None, tenant=None):
        payload = {"model": "tiny", "prompt": prompt, "max_tokens": 1, **({"cache_salt": salt} if salt else {})}
        status, body = post(daemon, "/v1/completions", payload, {"X-Skipjack-Tenant": tenant} if tenant else None)
        assert status == 200, body
        return body["usage"]["prompt_tokens_details"]["cached_tokens"]

    for who in ({"salt": "one"}, {"tenant": "one"}, {"salt": "one", "tenant": "one"}, {"salt": "two", "tenant": "one"}):
        assert cached(**who) == 0, who
        assert cached(**who) > 0, who
    status, body = post(daemon, "/v1/completions", {"model": "tiny", "prompt": prompt}, {"X-Skipjack-Tenant": "a b"})
    assert status == 400
    assert body["error"]["param"] == "tenant"


def test_the_limit_of_open_files_is_raised_for_the_connections(start_daemon):
    with open_files_limited_to(256) as hard:
        if hard != resource.RLIM_INFINITY and hard < 2000:
            pytest.skip(f"the hard limit of open files is {hard}")
        daemon = start_daemon(make_config(server={"limits": {"max_connections": 1000}}))
    limits = pathlib.Path(f"/proc/{daemon.process.pid}/limits").read_text()
    soft = next(int(line.split()[3]) for line in limits.splitlines() if line.startswith("Max open files"))
    assert soft >= 1000 + 62 + 512  # connections, those that are told so, everything else


def test_connections_beyond_the_hard_limit_are_refused_at_start(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(make_config(server={"limits": {"max_connections": 1000}})))
    done = subprocess.run(
        [BINARY, "serve", "--config", path], capture_output=True, text=True, timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 1500)))
    assert done.returncode != 0
    assert "need 1574 open files, but the hard limit is 1500" in done.stderr + done.stdout
    assert "max_connections" in done.stderr + done.stdout
