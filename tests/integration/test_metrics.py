"""What /metrics says, and that docs/metrics.md says the same."""
import re
import urllib.error

import pytest

from conftest import ROOT, make_config


def documented():
    """name -> (type, labels) of every row of the table."""
    rows = {}
    for line in (ROOT / "docs/metrics.md").read_text().splitlines():
        if not line.startswith("| `"):
            continue
        name, kind, labels = [cell.strip() for cell in line.strip("|").split(" | ")][:3]
        name = name.strip("` ")
        assert name not in rows, name
        rows[name] = (kind, set(re.findall(r"`(\w+)`", labels)))
    return rows


def test_every_family_is_documented_and_no_other(daemon):
    daemon.post("/v1/completions", {"model": "tiny", "prompt": "x", "max_tokens": 2})
    rows, page = documented(), daemon.scrape()
    assert {name: kind for name, (kind, _) in rows.items()} == page.types
    for name, labels, _ in page.samples:
        family = re.sub("_(bucket|sum|count)$", "", name)
        family = name if name in rows else family
        assert set(labels) - {"le"} == rows[family][1], name


def test_a_fresh_daemon_has_counted_nothing(start_daemon):
    page = start_daemon(make_config()).scrape()
    for name, labels, value in page.samples:
        # The scrape itself is a connection and a request.
        own = name.startswith(("process_", "skipjack_http_requests", "skipjack_http_accepted"))
        counted = page.types.get(name) == "counter" and not own
        if counted or name.endswith("_count"):
            assert value == 0, (name, labels)
    assert page.metric("skipjack_kv_blocks", state="cached") == 0
    assert page.metric("skipjack_ready") == 1


def test_refusals_are_counted_by_reason(start_daemon):
    daemon = start_daemon(make_config(server={"limits": {"max_request_bytes": "1MiB"}}))

    def refused(payload, code):
        with pytest.raises(urllib.error.HTTPError) as error:
            daemon.post("/v1/completions", payload)
        assert error.value.code == code

    refused({"model": "tiny", "prompt": "x", "temperature": -1}, 400)
    refused({"model": "tiny", "prompt": "x " * 10000}, 400)
    refused({"model": "none", "prompt": "x"}, 404)
    page = daemon.scrape()
    assert page.metric("skipjack_refused_requests_total", reason="invalid") == 2
    assert page.metric("skipjack_refused_requests_total", reason="not_found") == 1
    assert page.metric("skipjack_refused_requests_total") == 3
