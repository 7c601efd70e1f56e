"""More requests than the device pool holds: KV goes to host memory and to disk, and nobody's answer changes."""
import concurrent.futures
import random

import grpc
import pytest

from conftest import make_config

MEBIBYTE = 1 << 20
BLOCK = 16 * 512  # bytes of a block of the tiny model


def prompts(count):
    rng = random.Random(11)
    return ["".join(rng.choice("abcdefghij ") for _ in range(rng.randrange(20, 120))) for _ in range(count)]


def answer(stub, pb, text, **fields):
    call = stub.Generate(pb.GenerateRequest(text=text, sampling=pb.SamplingParams(
        max_tokens=100, ignore_eos=True, temperature=0), **fields))
    return "".join(delta.text for event in call for delta in event.deltas)


@pytest.mark.parametrize("swap", ["recompute", "reactive", "proactive"])
@pytest.mark.parametrize("lower", ["none", "host", "disk", "both", "small"])
def test_answers_do_not_depend_on_where_kv_was(start_daemon, stubs, tmp_path, swap, lower):
    if swap == "reactive" and lower == "disk":
        pytest.skip("refused by the configuration")
    pb, inference_grpc = stubs[0], stubs[1]
    kv = {"device_memory": 64 * BLOCK, "swap": swap}
    if lower in ("host", "both"):
        kv["host_memory"] = 8 * MEBIBYTE
    if lower == "small":
        kv["host_memory"] = kv["device_memory"] // 8
    if lower in ("disk", "both"):
        kv["disk"] = {"path": str(tmp_path), "size": 64 * MEBIBYTE}
    daemon = start_daemon(make_config(kv=kv, context_length=256, scheduler={
        "policy": "mlfq", "max_sequences": 8, "quantum": "1ms", "starvation_bound": "50ms", "max_lost_percent": 100}))
    texts = prompts(14)
    with grpc.insecure_channel(daemon.grpc) as channel:
        stub = inference_grpc.InferenceStub(channel)
        alone = [answer(stub, pb, text) for text in texts]
        with concurrent.futures.ThreadPoolExecutor(len(texts)) as pool:
            together = list(pool.map(lambda text: answer(stub, pb, text), texts))
        assert together == alone
        # Aborts in every state leave nothing behind.
        rng = random.Random(3)
        calls = [stub.Generate(pb.GenerateRequest(text=rng.choice(texts), sampling=pb.SamplingParams(
            max_tokens=100, ignore_eos=True))) for _ in range(40)]
        for call in rng.sample(calls, len(calls)):
            for _ in range(rng.randrange(3)):
                next(iter(call), None)
            call.cancel()
        daemon.wait_idle()
    page = daemon.scrape()
    assert page.metric("skipjack_preemptions_total") > 0
    copied = page.metric("skipjack_kv_copied_blocks_total")
    assert (copied > 0) == (swap != "recompute" and lower != "none")
    assert page.metric("skipjack_kv_failed_copies_total") == 0
