"""A daemon that serves, refuses and is left for long keeps its size."""
import random

import grpc
import pytest

from conftest import BINARY, make_config
from test_departures import http_socket

MEBIBYTE = 1 << 20


@pytest.mark.skipif(b"__asan_init" in BINARY.read_bytes(), reason="AddressSanitizer keeps what is freed for a while")
def test_memory_stays_flat(start_daemon, stubs):
    pb, inference_grpc = stubs[0], stubs[1]
    daemon = start_daemon(make_config(server={"limits": {"max_n": 64}}, scheduler={"max_sequences": 8}))
    rng = random.Random(5)

    def words(size):
        return "".join(rng.choice("abcdefghij ") for _ in range(size))

    with grpc.insecure_channel(daemon.grpc) as channel:
        stub = inference_grpc.InferenceStub(channel)

        def a_round():
            calls = [stub.Generate(pb.GenerateRequest(text=words(200), sampling=pb.SamplingParams(
                max_tokens=16, ignore_eos=True, top_logprobs=5))) for _ in range(20)]
            for call in calls:
                list(call)
            for _ in range(20):  # refused: longer than the context
                with pytest.raises(grpc.RpcError):
                    list(stub.Generate(pb.GenerateRequest(text=words(100 << 10))))
            for _ in range(20):  # left in the middle, or before anything came
                call = stub.Generate(pb.GenerateRequest(text=words(100), sampling=pb.SamplingParams(
                    n=8, max_tokens=200, ignore_eos=True)))
                next(iter(call))
                call.cancel()
                http_socket(daemon, {"model": "tiny", "prompt": words(100), "max_tokens": 200, "n": 8,
                                     "stream": True}).close()
            daemon.wait_idle()
            return daemon.metric("process_resident_memory_bytes")

        early = max(a_round() for _ in range(4))
        late = [a_round() for _ in range(8)]
    # A leak of as little as 20 KiB a request would show: 8 rounds of 80 requests.
    assert min(late[-3:]) - early < 12 * MEBIBYTE, [size / MEBIBYTE for size in (early, *late)]
    assert daemon.metric("process_open_fds") < 64
