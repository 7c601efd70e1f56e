"""The process: start, refuse to start, drain, stop."""
import json
import socket
import subprocess
import threading
import urllib.error

import grpc
import pytest

from conftest import BINARY, FIXTURES, ROOT, TINY_MODEL, make_config


def serve(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return subprocess.run([BINARY, "serve", "--config", path], capture_output=True, text=True, timeout=60)


def test_drains_on_sigterm(start_daemon, stubs):
    pb, inference_grpc = stubs[0], stubs[1]
    daemon = start_daemon(make_config())
    # A window that does not grow: an answer of this size is under way until its client reads it.
    with grpc.insecure_channel(daemon.grpc, options=[("grpc.http2.bdp_probe", 0)]) as channel:
        stub = inference_grpc.InferenceStub(channel)
        stream = stub.Generate(pb.GenerateRequest(text="x", sampling=pb.SamplingParams(
            top_logprobs=20, max_tokens=480, ignore_eos=True, temperature=0)))
        tokens = 0
        for message in stream:
            tokens += sum(delta.token_count for delta in message.deltas)
            if tokens > 0:
                break
        daemon.terminate()
        daemon.wait_for(lambda: "may finish" in daemon.log(), "the drain")
        with pytest.raises(grpc.RpcError) as error:
            list(stub.Generate(pb.GenerateRequest(text="x"), timeout=10))
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
        for message in stream:  # the running answer is finished, whole
            tokens += sum(delta.token_count for delta in message.deltas)
        assert tokens == 480
    assert daemon.process.wait(60) == 0, daemon.log()


def test_drain_call_refuses_new_work(start_daemon, stubs):
    pb, inference_grpc, admin_pb, admin_grpc = stubs
    daemon = start_daemon(make_config())
    with grpc.insecure_channel(daemon.grpc) as channel:
        admin_grpc.AdminStub(channel).Drain(admin_pb.DrainRequest())
        with pytest.raises(grpc.RpcError) as error:
            list(inference_grpc.InferenceStub(channel).Generate(pb.GenerateRequest(text="x")))
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
        status = admin_grpc.AdminStub(channel).Status(admin_pb.StatusRequest())
        assert status.draining and not status.ready


def test_a_grace_that_runs_out_ends_streams(start_daemon, stubs):
    pb, inference_grpc = stubs[0], stubs[1]
    daemon = start_daemon(make_config(server={"drain_grace": "100ms"}))
    # A window that does not grow: an answer of this size stays under way while its client does not read.
    with grpc.insecure_channel(daemon.grpc, options=[("grpc.http2.bdp_probe", 0)]) as channel:
        stream = inference_grpc.InferenceStub(channel).Generate(pb.GenerateRequest(
            text="x", sampling=pb.SamplingParams(top_logprobs=20, max_tokens=480, ignore_eos=True)))
        tokens = sum(delta.token_count for delta in next(iter(stream)).deltas)
        daemon.terminate()
        assert daemon.process.wait(60) == 0, daemon.log()
        with pytest.raises(grpc.RpcError) as error:
            for message in stream:
                tokens += sum(delta.token_count for delta in message.deltas)
        assert error.value.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
        assert tokens < 480


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_taken_port_is_named(tmp_path, protocol):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config = make_config()
        config["server"][protocol]["listen"] = f"127.0.0.1:{port}"
        result = serve(tmp_path, config)
    assert result.returncode == 1
    assert str(port) in result.stderr


@pytest.mark.parametrize("change, named", [
    (lambda c: c.update(extra=1), "extra"),
    (lambda c: c["server"].update(limitz={}), "limitz"),
    (lambda c: c["models"][0].update(threads="many"), "threads"),
    (lambda c: c["models"][0].update(threads=-1), "threads"),
    (lambda c: c["server"]["http"].update(listen="0.0.0.0:8080"), "insecure"),
    (lambda c: c["models"][0].update(backend="tpu"), "backend"),
    (lambda c: c.update(models=[]), "models"),
    (lambda c: c["models"][0].update(scheduler={"max_batch_tokens": 8, "max_sequences": 9}), "max_batch_tokens"),
    (lambda c: c["server"].update(on_model_failure="ignore"), "on_model_failure"),
])
def test_bad_configurations_are_named_before_anything_loads(tmp_path, change, named):
    config = make_config(model=tmp_path / "no-such-model.gguf")
    change(config)
    result = serve(tmp_path, config)
    assert result.returncode != 0
    assert named in result.stderr
    assert "line" in result.stderr
    assert "no-such-model" not in result.stderr


def test_a_missing_backend_is_no_silent_fallback(tmp_path):
    result = serve(tmp_path, make_config(backend="cuda"))
    assert result.returncode == 1
    assert "this version computes on the CPU only" in result.stderr


def test_all_models_that_do_not_load_are_named(tmp_path):
    config = make_config(model=tmp_path / "one.gguf", name="first")
    config["models"] += [{"name": "good", "path": str(TINY_MODEL)}, {"name": "last", "path": str(tmp_path / "two.gguf")}]
    result = serve(tmp_path, config)
    assert result.returncode == 1
    assert "one.gguf" in result.stderr and "two.gguf" in result.stderr


def test_the_others_are_served_where_that_is_wanted(start_daemon, tmp_path):
    config = make_config(server={"on_model_failure": "serve_others"})
    config["models"].append({"name": "bad", "path": str(tmp_path / "none.gguf")})
    daemon = start_daemon(config)
    assert "ready" in daemon.get("/health/ready")
    assert daemon.metric("skipjack_ready") == 1
    with pytest.raises(urllib.error.HTTPError) as error:
        daemon.post("/v1/completions", {"model": "bad", "prompt": "x"})
    assert error.value.code == 503 and int(error.value.headers["Retry-After"]) >= 1
    assert "none.gguf" in error.value.read().decode()
    assert daemon.post("/v1/completions", {"model": "tiny", "prompt": "x", "max_tokens": 2})["usage"]


def test_broken_models_are_refused(tmp_path):
    whole = TINY_MODEL.read_bytes()
    broken = {
        "missing": None,
        "empty": b"",
        "magic": b"GGML" + whole[4:],
        "cut": whole[:len(whole) // 2],
        "header": whole[:40],
        "count": whole[:8] + b"\xff" * 8 + whole[16:],
    }
    for name, data in broken.items():
        model = tmp_path / f"{name}.gguf"
        if data is not None:
            model.write_bytes(data)
        result = serve(tmp_path, make_config(model=model))
        assert result.returncode == 1, name
        assert f"{name}.gguf" in result.stderr, result.stderr


def test_every_shipped_configuration_is_valid():
    paths = sorted((ROOT / "configs").glob("*.yaml"))
    assert len(paths) >= 3
    for path in paths:
        result = subprocess.run([BINARY, "check-config", path], capture_output=True, text=True, timeout=60)
        assert result.returncode == 0, result.stderr


def test_inspect_prints_what_a_model_needs():
    result = subprocess.run([BINARY, "inspect", TINY_MODEL], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0
    for word in ("llama", "token_embd.weight", "Q4_0"):
        assert word in result.stdout
    vocabulary = FIXTURES / "tokenizers/smollm2_real.vocab.gguf"
    result = subprocess.run([BINARY, "inspect", "--json", vocabulary], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and json.loads(result.stdout)


def test_generate_runs_a_model_without_a_daemon():
    result = subprocess.run([BINARY, "generate", "--model", TINY_MODEL, "--prompt", "x", "--max-tokens", "5",
                             "--temperature", "0"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout and "output" in result.stderr


def test_bench_reports_both_protocols(daemon, tmp_path):
    for flag, address in (("--grpc", daemon.grpc), ("--http", daemon.http)):
        report = tmp_path / "report.json"
        result = subprocess.run(
            [BINARY, "bench", flag, address, "--model", "tiny", "--requests", "40", "--rate", "200",
             "--lengths", "uniform:4-40:2-12", "--warmup", "0", "--slo-ttft", "60", "--slo-tpot", "60", "--json", report],
            capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, result.stderr
        figures = json.loads(report.read_text())
        assert figures["requests"] == 40 and figures["failed"] == 0, figures
        assert figures["goodput_fraction"] == 1.0
        assert figures["ttft_s"]["p50"] > 0 and figures["jct_s"]["p99"] >= figures["ttft_s"]["p50"]
        # Every token was seen: each request's gaps are its tokens less one.
        assert figures["inter_token_gap_s"]["count"] > 40
    daemon.wait_idle()


def test_many_http_streams_at_once(daemon):
    """500 sockets that all stream; answered by a fixed number of threads."""
    host, port = daemon.http.rsplit(":", 1)
    body = json.dumps({"model": "tiny", "prompt": [5, 6, 7], "max_tokens": 6, "stream": True, "temperature": 0,
                       "ignore_eos": True}).encode()
    data = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
            b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
    sockets = [socket.create_connection((host, int(port)), timeout=60) for _ in range(500)]
    for sock in sockets:
        sock.sendall(data)
    ends = []
    lock = threading.Lock()

    def read(part):
        for sock in part:
            answer = b""
            while chunk := sock.recv(65536):
                answer += chunk
            sock.close()
            with lock:
                ends.append(b" 200 " in answer[:20] and b"[DONE]" in answer)

    threads = [threading.Thread(target=read, args=(sockets[i::8],)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == [True] * 500
    daemon.wait_idle()


def latency_files(folder):
    return sorted(folder.glob("*.steps.json"))


def test_what_was_learnt_of_step_times_is_there_after_a_restart(start_daemon, tmp_path):
    cache = tmp_path / "cache"
    config = make_config(cache_dir=str(cache))
    daemon = start_daemon(config)
    daemon.post("/v1/completions", {"model": "tiny", "prompt": "x", "max_tokens": 100, "ignore_eos": True})
    assert daemon.stop() == 0
    [path] = latency_files(cache)
    learnt = json.loads(path.read_text())
    assert learnt["seconds"]["step"] + learnt["seconds"]["decoder"] > 0
    assert learnt["for"]["model"][0]["name"] == TINY_MODEL.name

    # Two at once, and one that finds a damaged file: all start, serve and leave one whole file behind.
    path.write_text(path.read_text()[:50])
    daemons = [start_daemon(config), start_daemon(config)]
    assert "are not used" in daemons[0].log()
    for other in daemons:
        other.post("/v1/completions", {"model": "tiny", "prompt": "x", "max_tokens": 100, "ignore_eos": True})
    assert [other.stop() for other in daemons] == [0, 0]
    assert latency_files(cache) == [path]
    assert list(cache.iterdir()) == [path]
    assert json.loads(path.read_text())["for"] == learnt["for"]

    quiet = start_daemon(config)
    assert "are not used" not in quiet.log()


def test_a_cache_that_cannot_be_written_does_no_harm(start_daemon, tmp_path):
    (tmp_path / "file").write_text("")
    daemon = start_daemon(make_config(cache_dir=str(tmp_path / "file" / "cache")))
    daemon.post("/v1/completions", {"model": "tiny", "prompt": "x", "max_tokens": 100, "ignore_eos": True})
    assert daemon.stop() == 0
    assert daemon.log().count("is not kept for the next start") == 1
