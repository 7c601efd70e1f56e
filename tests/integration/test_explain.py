"""Why a request waits or was preempted: Admin.Explain, `skipjack explain`, timelines and the metrics by level."""
import json
import subprocess
import urllib.error
import urllib.request

import grpc
import pytest

from conftest import BINARY


def stream_of(pb, inference, request_id, priority, max_tokens):
    """A stream that has had its first output."""
    stream = inference.Generate(pb.GenerateRequest(
        token_ids=pb.TokenIds(ids=[1, 2, 3, 4, 5]), request_id=request_id, priority=priority, return_timeline=True,
        sampling=pb.SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)))
    for message in stream:
        if message.deltas:
            return stream
    raise AssertionError("no output")


def test_a_preempted_request_says_by_whom(one_seat_daemon, stubs):
    pb, inference_grpc, admin_pb, admin_grpc = stubs
    daemon = one_seat_daemon
    before = daemon.metric("skipjack_scheduler_preemptions_total", cause="priority")
    with grpc.insecure_channel(daemon.grpc) as channel:
        inference, admin = inference_grpc.InferenceStub(channel), admin_grpc.AdminStub(channel)
        low = stream_of(pb, inference, "low", pb.PRIORITY_CLASS_BATCH, 20)
        high = stream_of(pb, inference, "high", pb.PRIORITY_CLASS_REALTIME, 1900)

        def explain(request_id=""):
            return admin.Explain(admin_pb.ExplainRequest(request_id=request_id))

        def seat_wanted():
            return explain("low").requests[0].choices[0].wait.reason == admin_pb.WAIT_REASON_SEAT

        daemon.wait_for(seat_wanted, "a plan without the preempted one")
        choice = explain("low").requests[0].choices[0]
        assert choice.phase == admin_pb.SEQUENCE_PHASE_PREEMPTED
        assert choice.place.priority == pb.PRIORITY_CLASS_BATCH
        assert (choice.preempted.cause, choice.preempted.by_request_id) == (pb.PREEMPTION_CAUSE_PRIORITY, "high")
        assert choice.preempted.tokens_lost >= 5
        assert (choice.wait.running, choice.wait.seats) == (1, 1)
        assert "waits for a seat" in choice.sentence and "by request high" in choice.sentence
        everybody = explain()
        assert everybody.live_requests == 2
        assert [request.request.request_id for request in everybody.requests] == ["low", "high"]
        assert everybody.requests[1].choices[0].phase == admin_pb.SEQUENCE_PHASE_DECODING
        with pytest.raises(grpc.RpcError) as error:
            explain("nobody")
        assert error.value.code() == grpc.StatusCode.NOT_FOUND

        said = subprocess.run([BINARY, "explain", "low", "--connect", daemon.grpc], capture_output=True, text=True,
                              check=True).stdout
        assert said.startswith("low on smollm2") and choice.sentence.split(";")[0] in said
        unknown = subprocess.run([BINARY, "explain", "nobody", "--connect", daemon.grpc], capture_output=True, text=True)
        assert unknown.returncode == 1 and "nobody" in unknown.stderr

        page = daemon.scrape()
        assert page.metric("skipjack_scheduler_sequences", state="waiting") == 1
        assert page.metric("skipjack_scheduler_sequences", state="running") == 1
        assert page.metric("skipjack_scheduler_preemptions_total", cause="priority") == before + 1
        high.cancel()

        completed = [message.completed for message in low if message.HasField("completed")][0]
    (timeline,) = completed.timelines
    kinds = [event.WhichOneof("event") for event in timeline.events]
    assert [kind for kind in kinds if kind != "level"] == ["submitted", "scheduled", "first_token", "preempted",
                                                           "resumed", "finished"]
    times = [event.seconds for event in timeline.events]
    assert times == sorted(times) and times[0] == 0
    assert timeline.events[kinds.index("preempted")].preempted.cause == pb.PREEMPTION_CAUSE_PRIORITY
    assert timeline.events[-1].generated_tokens == 20
    daemon.wait_idle()


def test_timelines_over_http(daemon):
    prompt = {"model": "tiny", "prompt": ["one", "two"], "max_tokens": 3, "ignore_eos": True}
    assert "timeline" not in daemon.post("/v1/completions", prompt)
    timelines = daemon.post("/v1/completions", {**prompt, "return_timeline": True})["timeline"]
    assert [timeline["index"] for timeline in timelines] == [0, 1]
    for timeline in timelines:
        events = [event["event"] for event in timeline["events"] if event["event"] != "level"]
        assert events == ["submitted", "scheduled", "first_token", "finished"]
        assert timeline["events"][-1]["generated_tokens"] == 3 and timeline["left_out"] == 0

    body = json.dumps({**prompt, "prompt": "one", "stream": True, "return_timeline": True}).encode()
    request = urllib.request.Request(f"http://{daemon.http}/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        lines = [line for line in response.read().decode().splitlines() if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    chunks = [json.loads(line[len("data: "):]) for line in lines[:-1]]
    assert [("timeline" in chunk) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    with pytest.raises(urllib.error.HTTPError) as error:
        daemon.post("/v1/completions", {**prompt, "return_timeline": 1})
    assert error.value.code == 400 and "return_timeline" in error.value.read().decode()
