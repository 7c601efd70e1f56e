"""What a daemon's scheduler recorded is replayed plan by plan, elsewhere."""
import concurrent.futures
import random
import re
import subprocess

import grpc

from conftest import BINARY, make_config
from test_tiers import BLOCK, MEBIBYTE


def replay(path):
    return subprocess.run([BINARY, "replay", path], capture_output=True, text=True)


def test_ten_thousand_steps_are_replayed(start_daemon, stubs, tmp_path):
    pb, inference_grpc = stubs[0], stubs[1]
    recording = tmp_path / "recording"
    daemon = start_daemon(make_config(
        kv={"device_memory": 64 * BLOCK, "host_memory": MEBIBYTE, "disk": {"path": str(tmp_path), "size": 16 * MEBIBYTE}},
        context_length=256, scheduler={"policy": "mlfq", "max_sequences": 4, "quantum": "1ms", "starvation_bound": "20ms",
                                       "max_lost_percent": 100, "record": str(recording)}))
    rng = random.Random(5)

    def ask(stub, number):
        text = "".join(rng.choice("abcdefghij ") for _ in range(rng.randrange(5, 80)))
        call = stub.Generate(pb.GenerateRequest(
            text=text, tenant=rng.choice(["", "a", "b"]), priority=rng.choice([0, 0, 0, 1, 3]),
            sampling=pb.SamplingParams(max_tokens=150, ignore_eos=True, end_after_tokens=rng.randrange(50, 150))))
        for i, _ in enumerate(call):
            if number % 9 == 0 and i == 5:
                call.cancel()
                return

    with grpc.insecure_channel(daemon.grpc) as channel:
        stub = inference_grpc.InferenceStub(channel)
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            for begin in range(0, 4000, 60):
                for done in [pool.submit(ask, stub, number) for number in range(begin, begin + 60)]:
                    try:
                        done.result()
                    except grpc.RpcError as error:
                        assert error.code() == grpc.StatusCode.CANCELLED
                if daemon.metric("skipjack_steps_total") >= 10000:
                    break
    daemon.wait_idle()
    assert daemon.metric("skipjack_steps_total") >= 10000
    assert daemon.metric("skipjack_preemptions_total") > 100
    assert daemon.metric("skipjack_kv_copied_blocks_total") > 100
    daemon.terminate()
    daemon.stop()

    result = replay(recording)
    assert result.returncode == 0, result.stdout + result.stderr
    assert int(re.match(r"(\d+) plans", result.stdout)[1]) >= 10000
    assert "every plan is the one that was recorded" in result.stdout

    lines = recording.read_text().splitlines(keepends=True)
    plan = next(i for i, line in enumerate(lines) if line.startswith("plan ") and i > len(lines) // 2)
    lines[plan] = lines[plan].rsplit(" ", 1)[0] + " 1\n"
    recording.write_text("".join(lines))
    result = replay(recording)
    assert result.returncode == 1 and "is planned differently" in result.stdout

    recording.write_text("no recording\n")
    result = replay(recording)
    assert result.returncode == 1 and "line 1 is no part of a recording" in result.stderr
