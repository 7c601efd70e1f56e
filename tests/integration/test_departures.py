"""Clients that leave or are refused: what they asked for stops, and nobody else notices."""
import contextlib
import json
import socket

import grpc
import pytest

from conftest import make_config

LONG_PROMPT = list(range(1000, 2500))


def http_socket(daemon, payload):
    """A socket on which this completion has been asked for."""
    host, port = daemon.http.rsplit(":", 1)
    body = json.dumps(payload).encode()
    sock = socket.create_connection((host, int(port)), timeout=120)
    sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                 b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
    return sock


@contextlib.contextmanager
def asked(daemon, stubs, protocol, prompt, max_tokens, model="smollm2"):
    """A request under way; yields what makes its client leave."""
    pb, inference_grpc = stubs[0], stubs[1]
    if protocol == "http":
        with http_socket(daemon, {"model": model, "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True,
                                  "stream": True}) as sock:
            yield sock.close
    else:
        with grpc.insecure_channel(daemon.grpc) as channel:
            call = inference_grpc.InferenceStub(channel).Generate(pb.GenerateRequest(
                token_ids=pb.TokenIds(ids=prompt),
                sampling=pb.SamplingParams(max_tokens=max_tokens, ignore_eos=True)))
            yield call.cancel


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_leaving_the_queue(one_seat_daemon, stubs, protocol):
    daemon, pb, inference_grpc = one_seat_daemon, stubs[0], stubs[1]
    before = daemon.scrape()
    with grpc.insecure_channel(daemon.grpc) as channel:
        stream = inference_grpc.InferenceStub(channel).Generate(pb.GenerateRequest(
            text="Once", sampling=pb.SamplingParams(max_tokens=200, ignore_eos=True)))
        first = next(message for message in stream if message.deltas)
        tokens = sum(delta.token_count for delta in first.deltas)
        with asked(daemon, stubs, protocol, [5, 6, 7], 50) as leave:
            daemon.wait_for(lambda: daemon.metric("skipjack_requests_waiting") == 1, "a request that waits")
            leave()
            pages = []

            def gone():
                pages.append(daemon.scrape())
                return pages[-1].metric("skipjack_requests_waiting") == 0

            daemon.wait_for(gone, "an empty queue")
        assert pages[-1].metric("skipjack_requests_running") == 1, "the first one still runs"
        for message in stream:
            tokens += sum(delta.token_count for delta in message.deltas)
        assert tokens == 200
    daemon.wait_idle()
    after = daemon.scrape()

    def rise(name, **labels):
        return after.metric(name, **labels) - before.metric(name, **labels)

    assert rise("skipjack_generation_tokens_total") == 200
    assert rise("skipjack_requests_total", outcome="cancelled") == 1
    assert rise("skipjack_queue_time_seconds_count") == 2, "who left has waited as well"


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_leaving_while_the_prompt_is_computed(one_seat_daemon, stubs, protocol):
    daemon = one_seat_daemon
    before = daemon.scrape()
    with asked(daemon, stubs, protocol, LONG_PROMPT, 50) as leave:
        daemon.wait_for(lambda: daemon.metric("skipjack_steps_total") >= before.metric("skipjack_steps_total") + 2,
                        "a prompt that is being computed")
        leave()
        daemon.wait_idle()
    after = daemon.scrape()
    steps = after.metric("skipjack_steps_total") - before.metric("skipjack_steps_total")
    assert steps < len(LONG_PROMPT) / 8, "the whole prompt was computed"
    for name in ("skipjack_generation_tokens_total", "skipjack_prompt_tokens_total"):
        assert after.metric(name) == before.metric(name)


def test_cancelling_a_stream_with_logprobs(start_daemon, stubs):
    pb, inference_grpc = stubs[0], stubs[1]
    daemon = start_daemon(make_config(server={"limits": {"max_n": 256}}, scheduler={"max_sequences": 4}))
    with grpc.insecure_channel(daemon.grpc) as channel:
        stream = inference_grpc.InferenceStub(channel).Generate(pb.GenerateRequest(
            text="x", sampling=pb.SamplingParams(n=256, max_tokens=480, ignore_eos=True, top_logprobs=20)))
        next(message for message in stream if message.deltas)
        stream.cancel()
        with pytest.raises(grpc.RpcError) as error:
            list(stream)
        assert error.value.code() == grpc.StatusCode.CANCELLED
    daemon.wait_idle()
    assert daemon.metric("skipjack_requests_total", outcome="cancelled") > 0
    assert daemon.metric("skipjack_generation_tokens_total") < 256 * 480


def test_overload_is_answered_counted_and_logged_sparingly(start_daemon, stubs):
    """Two requests of many choices fill the house; 300 more are told to come again."""
    pb, inference_grpc = stubs[0], stubs[1]
    daemon = start_daemon(make_config(server={"limits": {"max_queued": 2, "max_n": 512}},
                                      scheduler={"max_sequences": 1}))
    payload = {"model": "tiny", "prompt": "x", "max_tokens": 480, "n": 512, "ignore_eos": True, "stream": True}
    with http_socket(daemon, payload), http_socket(daemon, payload):
        daemon.wait_for(lambda: daemon.metric("skipjack_live_requests") == 2, "a full house")
        for _ in range(150):
            with http_socket(daemon, {"model": "tiny", "prompt": "x"}) as sock:
                answer = sock.recv(4096).decode().lower()
            assert answer.startswith("http/1.1 429 ")
            assert 1 <= int(answer.split("retry-after: ")[1].split("\r\n")[0]) <= 60
        with grpc.insecure_channel(daemon.grpc) as channel:
            for _ in range(150):
                with pytest.raises(grpc.RpcError) as error:
                    list(inference_grpc.InferenceStub(channel).Generate(pb.GenerateRequest(text="x")))
                assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
                assert int(dict(error.value.trailing_metadata())["retry-after"]) >= 1
        assert daemon.metric("skipjack_refused_requests_total", reason="queue_full") == 300
    daemon.wait_idle()
    lines = [line for line in daemon.log().splitlines() if " 429 " in line or "RESOURCE_EXHAUSTED" in line]
    assert 2 <= len(lines) <= 100, len(lines)
