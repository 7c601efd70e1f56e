#!/usr/bin/env python3
"""Job completion times of a real daemon under each policy: the same requests, the same machine, policies in turn.

Load 1 is what `fcfs` completes per second when it always has work. The KV pool holds what `orca` reserves for 16 requests, which
ask for all that the context leaves; answers end after a number of tokens that only the client knows. Every point is kept as soon
as it is measured, so a second call goes on where the first one was stopped. Needs only the standard library; the plot needs
matplotlib and is left out without it.
"""
import argparse
import hashlib
import json
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import plot  # noqa: E402
from serve import daemon  # noqa: E402

ORCA_SEQUENCES = 16
SATURATION_SEED = 1000  # other requests than those that are measured
ALONE_SEED = 2000


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, load 0.9, 400 requests")
    parser.add_argument("--skipjack", type=pathlib.Path, default=ROOT / "build/release/bin/skipjack")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/jct")
    parser.add_argument("--workload", default="sharegpt-2k", help="as of `skipjack simulate`")
    parser.add_argument("--policies", default="orca,fcfs,mlfq,index")
    parser.add_argument("--loads", help="parts of the saturation of fcfs (0.7,0.9,1.0)")
    parser.add_argument("--requests", type=int, default=400, help="of a point")
    parser.add_argument("--seeds", type=int, help="repetitions of a point (3)")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--seats", type=int, default=32, help="max_sequences")
    parser.add_argument("--host-memory", default="0", help="kv.host_memory of all policies")
    parser.add_argument("--warmup", type=float, default=0.1, help="part of the requests left out, at the front")
    given = parser.parse_args()
    given.loads = [float(load) for load in (given.loads or ("0.9" if given.quick else "0.7,0.9,1.0")).split(",")]
    given.seeds = given.seeds or (1 if given.quick else 3)
    given.policies = given.policies.split(",")
    return given


def run(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"{command[0]} {command[1]} failed:\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}")
    return result.stdout


def kv_bytes(options):
    kibibytes = re.search(r"KV cache, f16 or bf16\s+([\d.]+) KiB a token", run(options.skipjack, "inspect", options.model))
    return int(ORCA_SEQUENCES * options.context * float(kibibytes[1]) * 1024)


def model_entry(options, policy):
    return {
        "name": "measured", "path": str(options.model), "context_length": options.context,
        "kv": {"device_memory": str(kv_bytes(options)), "host_memory": options.host_memory, "prefix_cache": False},
        "scheduler": {"policy": policy, "max_sequences": options.seats},
    }


def write_trace(options, path, seed, requests, rate):
    run(options.skipjack, "simulate", "--cost-model", ROOT / "configs/cost/smollm2-cpu.json", "--context", options.context,
        "--workload", options.workload, "--seed", seed, "--requests", requests, "--rate", rate, "--write-trace", path)


def measure(options, policy, trace, name, *bench):
    """Records of the requests in the order of arrival, and what the daemon counted meanwhile."""
    folder = options.out / "runs" / name
    folder.mkdir(parents=True, exist_ok=True)
    records = folder / "records.jsonl"
    with daemon.running(options.skipjack, folder, model_entry(options, policy)) as served:
        # What a step takes is learnt before it counts, as in a server that has run for a while.
        run(options.skipjack, "bench", "--grpc", served.grpc, "--requests", 32, "--rate", 4, "--lengths", "uniform:16-400:8-48",
            "--seed", 77)
        before = served.metrics()
        run(options.skipjack, "bench", "--grpc", served.grpc, "--trace", trace, "--records", records, *bench)
        after = served.metrics()
    counted = {key: value - before.get(key, 0) for key, value in after.items()}
    measured = [json.loads(line) for line in records.read_text().splitlines()]
    failed = [record["error"] for record in measured if "error" in record]
    if failed:
        raise SystemExit(f"{policy}: {len(failed)} requests failed, the first with: {failed[0]}")
    return measured, counted


def saturation(options):
    """Requests per second that fcfs completes when all are there from the start, between the first and the last tenth."""
    kept = options.out / "saturation.json"
    if kept.exists():
        return json.loads(kept.read_text())["requests_per_second"]
    trace = options.out / "saturation.jsonl"
    write_trace(options, trace, SATURATION_SEED, 200 if options.quick else 400, 0)
    records, _ = measure(options, "fcfs", trace, "saturation")
    ends = sorted(record["last_token_s"] for record in records)
    low, high = len(ends) // 10, len(ends) - 1 - len(ends) // 10
    rate = (high - low) / (ends[high] - ends[low])
    kept.write_text(json.dumps({"requests_per_second": rate}))
    return rate


def solve(matrix, right):
    """Gauss, with the largest pivot."""
    rows = [row[:] + [value] for row, value in zip(matrix, right)]
    for i in range(len(rows)):
        pivot = max(range(i, len(rows)), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(i + 1, len(rows)):
            factor = rows[r][i] / rows[i][i]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i])]
    solved = [0.0] * len(rows)
    for i in reversed(range(len(rows))):
        solved[i] = (rows[i][-1] - sum(rows[i][j] * solved[j] for j in range(i + 1, len(rows)))) / rows[i][i]
    return solved


def alone(options):
    """JCT of a request on an empty system: a + b prompt tokens + c output tokens, by least squares over 24 of them."""
    kept = options.out / "alone.json"
    if not kept.exists():
        trace = options.out / "alone.jsonl"
        write_trace(options, trace, ALONE_SEED, 24, 0)
        records, _ = measure(options, "fcfs", trace, "alone", "--max-concurrency", 1)
        terms = [(1.0, r["prompt_tokens"], r["output_tokens"]) for r in records]
        taken = [r["last_token_s"] - r["sent_s"] for r in records]
        matrix = [[sum(t[i] * t[j] for t in terms) for j in range(3)] for i in range(3)]
        right = [sum(t[i] * y for t, y in zip(terms, taken)) for i in range(3)]
        kept.write_text(json.dumps(solve(matrix, right)))
    a, b, c = json.loads(kept.read_text())
    return lambda record: max(a + b * record["prompt_tokens"] + c * record["output_tokens"], 1e-3)


def quantity(values):
    ranked = sorted(values)

    def at(part):
        return ranked[min(max(-(-int(part * 1000) * len(ranked) // 1000), 1), len(ranked)) - 1]

    return {"mean": statistics.fmean(ranked), "p50": at(0.5), "p95": at(0.95), "p99": at(0.99)}


def measure_point(options, policy, load, rate, seed):
    name = f"{policy}-{load}-{seed}"
    kept = options.out / "runs" / name / "point.json"
    if kept.exists():
        return json.loads(kept.read_text())
    trace = options.out / f"trace-{load}-{seed}.jsonl"
    write_trace(options, trace, seed, options.requests, rate)
    records, counted = measure(options, policy, trace, name)
    steps = counted["skipjack_step_time_seconds_sum"]
    point = {
        "records": records[int(options.warmup * len(records)):],
        "preemptions": counted["skipjack_preemptions_total"],
        "promotions": counted["skipjack_scheduler_promotions_total"],
        "copied_blocks": counted["skipjack_kv_copied_blocks_total"],
        "restoring_time_part": counted["skipjack_restoring_seconds_total"] / steps,
        "copying_time_part": counted["skipjack_kv_copy_wait_seconds_total"] / steps,
        "busy_part": steps / max(record["last_token_s"] for record in records),
    }
    kept.write_text(json.dumps(point))
    return point


def summarize(options, policy, load, rate, seeds, alone_seconds):
    """All seeds' requests together, in the form of `skipjack simulate --json`."""
    records = [record for point in seeds for record in point["records"]]
    jct = [record["last_token_s"] - record["due_s"] for record in records]
    ttft = [record["first_token_s"] - record["due_s"] for record in records]
    requests = options.requests * len(seeds)
    return {
        "policy": policy, "load": load, "rate": rate, "requests": len(records),
        "jct": quantity(jct),
        "jct_mean_of_seeds": [statistics.fmean(r["last_token_s"] - r["due_s"] for r in p["records"]) for p in seeds],
        "normalized_latency": quantity([taken / r["output_tokens"] for taken, r in zip(jct, records)]),
        "ttft": quantity(ttft),
        "tpot": quantity([(taken - first) / (r["output_tokens"] - 1)
                          for taken, first, r in zip(jct, ttft, records) if r["output_tokens"] > 1]),
        "slowdown": quantity([taken / alone_seconds(r) for taken, r in zip(jct, records)]),
        "preemptions_per_request": sum(p["preemptions"] for p in seeds) / requests,
        "promotions_per_request": sum(p["promotions"] for p in seeds) / requests,
        "copied_blocks_per_request": sum(p["copied_blocks"] for p in seeds) / requests,
        "restoring_time_part": statistics.fmean(p["restoring_time_part"] for p in seeds),
        "copying_time_part": statistics.fmean(p["copying_time_part"] for p in seeds),
        "busy_part": statistics.fmean(p["busy_part"] for p in seeds),
    }


def print_table(points):
    print(f"{'policy':<8} {'load':>5} | {'JCT mean':>8} {'p50':>7} {'p95':>7} {'p99':>7} | {'s/token':>8} {'p95':>8} | {'TTFT':>7} "
          f"{'p95':>7} | {'TPOT':>6} | {'slowdown':>8} {'p95':>6} | {'preempt':>7} {'copied':>7} {'lost':>6}")
    for p in points:
        jct, normalized, ttft = p["jct"], p["normalized_latency"], p["ttft"]
        lost = p["restoring_time_part"] + p["copying_time_part"]
        print(f"{p['policy']:<8} {p['load']:>5.2f} | {jct['mean']:>8.2f} {jct['p50']:>7.2f} {jct['p95']:>7.2f} {jct['p99']:>7.2f} | "
              f"{normalized['mean']:>8.4f} {normalized['p95']:>8.4f} | {ttft['mean']:>7.2f} {ttft['p95']:>7.2f} | "
              f"{p['tpot']['mean']:>6.4f} | {p['slowdown']['mean']:>8.2f} {p['slowdown']['p95']:>6.1f} | "
              f"{p['preemptions_per_request']:>7.2f} {p['copied_blocks_per_request']:>7.1f} {100 * lost:>5.1f}%")


def print_gains(points, better, worse):
    at = {(p["policy"], p["load"]): p for p in points}
    for load in sorted({p["load"] for p in points}):
        if (better, load) not in at or (worse, load) not in at:
            continue
        a, b = at[better, load], at[worse, load]
        print(f"{better} over {worse} at load {load:.2f}: JCT mean {b['jct']['mean'] / a['jct']['mean']:.2f}x, "
              f"p95 {b['jct']['p95'] / a['jct']['p95']:.2f}x; normalized latency mean "
              f"{b['normalized_latency']['mean'] / a['normalized_latency']['mean']:.2f}x, "
              f"p95 {b['normalized_latency']['p95'] / a['normalized_latency']['p95']:.2f}x")


def main():
    options = arguments()
    # Points of other settings or of another build must not be taken for these.
    build = hashlib.sha256(options.skipjack.read_bytes()).hexdigest()[:8]
    options.out = options.out / (f"{options.workload}-{options.requests}-{options.context}-{options.seats}-{options.host_memory}-{build}"
                                 + ("-quick" if options.quick else ""))
    options.out.mkdir(parents=True, exist_ok=True)
    top = saturation(options)
    print(f"fcfs saturates at {top:.3f} requests/s", flush=True)
    alone_seconds = alone(options)
    points = []
    for load in options.loads:
        measured = {policy: [] for policy in options.policies}
        for seed in range(options.seeds):
            for policy in options.policies:  # in turn, so that a slow spell of the machine meets all
                print(f"{policy} at {load}, seed {seed}", file=sys.stderr, flush=True)
                measured[policy].append(measure_point(options, policy, load, load * top, seed))
        points += [summarize(options, policy, load, load * top, seeds, alone_seconds) for policy, seeds in measured.items()]
    print_table(points)
    for policy in options.policies:
        if policy != "orca":
            print_gains(points, policy, "orca")
    result = options.out / "jct.json"
    result.write_text(json.dumps({"setting": {"workload": options.workload, "saturation_requests_per_second": top,
                                              "seats": options.seats, "seeds": options.seeds}, "points": points}, indent=2))
    plot.draw(result)
    print(f"numbers: {result}")


if __name__ == "__main__":
    main()
