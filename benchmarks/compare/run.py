#!/usr/bin/env python3
"""Skipjack and llama.cpp on the same GGUF, interleaved in one run: medians, spreads and their ratios.

  benchmarks/compare/run.py --llama-bench PATH --llama-batched-bench PATH --llama-server PATH --model GGUF --json FILE

Needs only the standard library. Build Skipjack with -DSKIPJACK_BUILD_BENCHMARKS=ON first (forward_bench). Every round runs
each measurement once for either side, in turn, so that a slow spell of the machine meets both. Peers whose path is not given
are left out.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPT, OUTPUT = 128, 128  # of the server measurements
CLIENTS = (1, 8, 32)
BATCHES = (8, 32)


def run(command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"{command[0]} failed ({result.returncode}):\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}")
    return result.stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# ---- engines, without a server ----

def skipjack_engine(args):
    out = run([args.forward_bench, f"--model={args.model}", f"--threads={args.threads}", "--benchmark_format=json"])
    figures = {}
    for case in json.loads(out[out.index("{"):])["benchmarks"]:
        name = case["name"].removesuffix("/manual_time")
        if match := re.match(r"prefill/512", name):
            figures["prefill 512"] = case["median"]
        elif match := re.match(r"decode/batch:(\d+)/context:64(/|$)", name):
            figures[f"decode batch {match.group(1)}"] = case["median"]
    return figures


def llama_engine(args):
    figures = {}
    out = json.loads(run([args.llama_bench, "-m", args.model, "-t", args.threads, "-p", 512, "-n", 128, "-r", 1, "-o", "json"]))
    for row in out:
        figures["prefill 512" if row["n_prompt"] else "decode batch 1"] = row["avg_ts"]
    if args.llama_batched_bench:
        lines = run([args.llama_batched_bench, "-m", args.model, "-t", args.threads, "-c", 8192, "-npp", 32, "-ntg", 64,
                     "-npl", ",".join(map(str, BATCHES)), "--output-format", "jsonl"])
        for line in lines.splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                figures[f"decode batch {row['pl']}"] = row["speed_tg"]
    return figures


# ---- servers ----

@contextlib.contextmanager
def process(command, ready):
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen([str(part) for part in command], stdout=log, stderr=subprocess.STDOUT)
        start = time.monotonic()
        try:
            while not ready():
                if child.poll() is not None or time.monotonic() - start > 120:
                    log.seek(0)
                    sys.exit(f"{command[0]} did not come up:\n{log.read()[-2000:]}")
                time.sleep(0.005)
            yield child, time.monotonic() - start
        finally:
            child.terminate()
            child.wait(60)


def answers(port):
    def check():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as response:
                return response.status == 200
        except OSError:
            return False
    return check


@contextlib.contextmanager
def skipjack_server(args, clients):
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.yaml"
        config.write_text(json.dumps({
            "server": {"grpc": {"listen": "127.0.0.1:0"}, "http": {"listen": f"127.0.0.1:{port}"}},
            "models": [{"name": "model", "path": str(pathlib.Path(args.model).resolve()), "threads": args.threads,
                        "context_length": 2048, "kv": {"device_memory": args.kv_bytes},
                        "scheduler": {"max_sequences": max(clients, 1)}}],
            "log": {"level": "warn"}}))
        with process([args.skipjack, "serve", "--config", config], answers(port)) as (child, seconds):
            yield port, child, seconds


@contextlib.contextmanager
def llama_server(args, clients):
    port = free_port()
    with process([args.llama_server, "-m", args.model, "-t", args.threads, "-np", clients, "-c",
                  max(clients * 2 * (PROMPT + OUTPUT), 2048), "--host", "127.0.0.1", "--port", port], answers(port)) as (child, s):
        yield port, child, s


def load(args, port, clients, requests, prompt, output):
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        run([args.skipjack, "bench", "--http", f"127.0.0.1:{port}", "--model", "model", "--rate", 0, "--requests", requests,
             "--max-concurrency", clients, "--lengths", f"fixed:{prompt}:{output}", "--max-prompt", prompt,
             "--vocabulary", args.vocabulary, "--warmup", 0, "--json", report.name])
        return json.load(open(report.name))


def resident_bytes(child):
    fields = pathlib.Path(f"/proc/{child.pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGESIZE")


def server_figures(args, server):
    figures = {}
    for clients in CLIENTS:
        with server(args, clients) as (port, child, ready_seconds):
            if clients == 1:
                figures["ready seconds"] = ready_seconds
                load(args, port, 1, 1, 16, 4)  # first touch
                figures["ttft of 512 tokens, ms"] = load(args, port, 1, 3, 512, 2)["ttft_s"]["p50"] * 1e3
            report = load(args, port, clients, max(4, 2 * clients), PROMPT, OUTPUT)
            if report["failed"]:
                sys.exit(f"requests failed: {report['errors']}")
            figures[f"server {clients} clients"] = report["output_tokens_per_s"]
            figures[f"resident MB, {clients} clients"] = resident_bytes(child) / 1e6
    return figures


# ---- report ----

LOWER_IS_BETTER = ("ready", "ttft", "resident")


def summarize(rounds):
    names = list(dict.fromkeys(name for one in rounds for name in one))
    summary = {}
    for name in names:
        values = [one[name] for one in rounds if name in one]
        summary[name] = {"median": statistics.median(values), "min": min(values), "max": max(values), "values": values}
    return summary


def print_table(ours, theirs):
    print(f"{'work':<26}{'skipjack':>12}{'(min..max)':>20}{'llama.cpp':>12}{'(min..max)':>20}{'ratio':>8}")
    for name, mine in ours.items():
        line = f"{name:<26}{mine['median']:>12.1f}{'%.1f..%.1f' % (mine['min'], mine['max']):>20}"
        if other := theirs.get(name):
            ratio = mine["median"] / other["median"]
            if name.startswith(LOWER_IS_BETTER):
                ratio = 1 / ratio
            line += f"{other['median']:>12.1f}{'%.1f..%.1f' % (other['min'], other['max']):>20}{ratio:>7.2f}x"
        print(line)
    print("Tokens per second unless named otherwise; a ratio above 1 is in Skipjack's favour.")


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--skipjack", default=ROOT / "build/release/bin/skipjack")
    parser.add_argument("--forward-bench", default=ROOT / "build/release/benchmarks/micro/forward_bench")
    parser.add_argument("--llama-bench")
    parser.add_argument("--llama-batched-bench")
    parser.add_argument("--llama-server")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kv-bytes", type=int, default=512 << 20)
    parser.add_argument("--only", choices=["engine", "server"])
    parser.add_argument("--json")
    args = parser.parse_args()
    inspected = json.loads(run([args.skipjack, "inspect", "--json", args.model]))
    args.vocabulary = next(t["shape"][1] for t in inspected["tensors"] if t["name"] == "token_embd.weight")

    ours, theirs = [], []
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        mine, other = {}, {}
        if args.only != "server":
            mine |= skipjack_engine(args)
            if args.llama_bench:
                other |= llama_engine(args)
        if args.only != "engine":
            mine |= server_figures(args, skipjack_server)
            if args.llama_server:
                other |= server_figures(args, llama_server)
        ours.append(mine)
        theirs.append(other)
    ours, theirs = summarize(ours), summarize(theirs)
    weights = inspected["memory"]["weight_bytes"]
    print(f"{cpu_name()}, {args.threads} threads, {datetime.date.today()}, {pathlib.Path(args.model).name}, "
          f"median of {args.rounds}")
    print_table(ours, theirs)
    bound = (1.2 * (weights + args.kv_bytes) + 150e6) / 1e6
    print(f"memory bound 1.2 x (weights + KV) + 150 MB = {bound:.0f} MB")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({
            "cpu": cpu_name(), "threads": args.threads, "date": str(datetime.date.today()), "model": str(args.model),
            "rounds": args.rounds, "weight_bytes": weights, "kv_bytes": args.kv_bytes, "skipjack": ours,
            "llama.cpp": theirs}, indent=1))


if __name__ == "__main__":
    main()
