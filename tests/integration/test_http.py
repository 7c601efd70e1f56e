"""HTTP as raw bytes: what a library would hide."""
import json
import socket
import urllib.error
import urllib.request

import pytest


def connect(daemon):
    host, port = daemon.http.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=30)


def raw(daemon, data):
    """Sends bytes, returns (status, headers, body) of the one answer on a connection that then closes."""
    with connect(daemon) as sock:
        sock.sendall(data)
        answer = b""
        while chunk := sock.recv(65536):
            answer += chunk
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    return int(lines[0].split()[1]), headers, body


def request(daemon, method, path, body=b"", headers=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", f"Content-Length: {len(body)}", *headers]
    return raw(daemon, "\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def post(daemon, path, payload, headers=()):
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return request(daemon, "POST", path, body, ["Content-Type: application/json", *headers])


def error_of(body):
    error = json.loads(body)["error"]
    assert error["message"] and error["type"]
    return error


@pytest.mark.parametrize("method, path, status", [
    ("GET", "/nope", 404), ("GET", "/v1/completions", 405), ("DELETE", "/v1/models", 405), ("POST", "/metrics", 405),
    ("GET", "/v1/models/nope", 404),
])
def test_errors_have_json_bodies(daemon, method, path, status):
    code, headers, body = request(daemon, method, path)
    assert code == status
    assert headers["content-type"].startswith("application/json")
    error_of(body)
    if status == 405:
        assert "allow" in headers


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"null", b'{"prompt": "x"', b'{"prompt": "x", "prompt": "y"}', b'{"prompt": NaN}',
    b'{"prompt": "\xff\xfe"}', b"[" * 100000, b'{"model": 5, "prompt": "x"}', b'{"prompt": {"a": 1}}',
    b'{"prompt": "x", "stop": [1]}', b'{"prompt": "x", "logit_bias": {"a": 1}}', b'{"prompt": "\\ud800"}',
])
def test_malformed_json_is_a_400(daemon, body):
    code, _, answer = post(daemon, "/v1/completions", body)
    assert code == 400, answer
    error_of(answer)


def test_an_oversized_body_is_refused_early(daemon):
    """Only the head is sent: the refusal must not wait for the 64 MiB."""
    with connect(daemon) as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     b"Content-Length: 67108864\r\n\r\n")
        assert b" 413 " in sock.recv(4096)


def test_sse_is_well_formed(daemon):
    code, headers, body = post(daemon, "/v1/completions", {
        "model": "tiny", "prompt": "x", "max_tokens": 5, "stream": True, "stream_options": {"include_usage": True},
        "ignore_eos": True}, ["X-Request-Id: abc-1"])
    assert code == 200
    assert headers["content-type"].startswith("text/event-stream")
    assert "no-cache" in headers["cache-control"] and headers["x-accel-buffering"] == "no"
    assert headers["x-request-id"] == "abc-1"
    # Undo the chunked framing, then read events.
    data, rest = b"", body
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        data += rest[:int(size, 16)]
        rest = rest[int(size, 16) + 2:]
    events = [event for event in data.decode().split("\n\n") if event and not event.startswith(":")]
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    assert chunks[-1]["usage"]["completion_tokens"] == 5 and chunks[-1]["choices"] == []
    assert len({chunk["id"] for chunk in chunks}) == 1 and len({chunk["created"] for chunk in chunks}) == 1


def test_answers_carry_timings(daemon):
    _, headers, body = post(daemon, "/v1/completions", {"model": "tiny", "prompt": "x", "max_tokens": 3})
    answer = json.loads(body)
    assert answer["timings"]
    assert "x-request-id" in headers


def test_prefix_hits_are_reported_and_change_nothing(daemon):
    payload = {"model": "tiny", "prompt": list(range(100, 200)), "max_tokens": 16, "temperature": 0,
               "return_token_ids": True, "ignore_eos": True}
    first, second = (json.loads(post(daemon, "/v1/completions", payload)[2]) for _ in range(2))
    assert first["choices"][0]["token_ids"] == second["choices"][0]["token_ids"]
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= 80


def test_clients_that_vanish_leave_no_work(daemon):
    body = json.dumps({"model": "tiny", "prompt": "x", "max_tokens": 400, "stream": True, "ignore_eos": True}).encode()
    head = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n")
    for received in (0, 1, 300, 2000):  # before the answer, in its head, in the middle of its events
        with connect(daemon) as sock:
            sock.sendall(head + body)
            left = received
            while left > 0:
                left -= len(sock.recv(left))
    with connect(daemon) as sock:
        sock.sendall(head + body[:10])  # in the middle of its own request
    daemon.wait_idle()


def test_one_byte_at_a_time(daemon):
    body = json.dumps({"model": "tiny", "prompt": "x", "max_tokens": 2}).encode()
    data = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
            b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
    with connect(daemon) as sock:
        for byte in data:
            sock.sendall(bytes([byte]))
        answer = b""
        while chunk := sock.recv(65536):
            answer += chunk
    assert b" 200 " in answer.split(b"\r\n")[0]


def test_health_metrics_and_version(daemon):
    assert request(daemon, "GET", "/health/live")[0] == 200
    assert request(daemon, "GET", "/health/ready")[0] == 200
    assert json.loads(request(daemon, "GET", "/version")[2])["version"]
    page = daemon.get("/metrics")
    for name in ("skipjack_requests_total", "skipjack_requests_running", "skipjack_requests_waiting",
                 "skipjack_kv_blocks", "skipjack_time_to_first_token_seconds_bucket",
                 "skipjack_time_per_output_token_seconds_bucket", "skipjack_inter_token_gap_seconds_bucket",
                 "skipjack_job_completion_time_seconds_bucket", "skipjack_queue_time_seconds_bucket",
                 "skipjack_step_time_seconds_bucket", "skipjack_generation_tokens_total"):
        assert name in page


def test_tokenize_and_detokenize(daemon):
    text = "Hällo wörld 漢字"
    answer = json.loads(post(daemon, "/tokenize", {"model": "tiny", "prompt": text, "add_special_tokens": False})[2])
    back = json.loads(post(daemon, "/detokenize", {"model": "tiny", "tokens": answer["tokens"]})[2])
    assert back["prompt"] == text


def test_prompts_stay_out_of_the_log(daemon):
    secret = "xyzzy-secret-prompt"
    post(daemon, "/v1/completions", {"model": "tiny", "prompt": secret, "max_tokens": 3})
    post(daemon, "/v1/completions", {"model": "tiny", "prompt": secret, "max_tokens": -3})
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"http://{daemon.http}/{secret}", timeout=30)
    assert secret not in daemon.log()
