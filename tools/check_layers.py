#!/usr/bin/env python3
"""Fails when an #include goes against the layer order of docs/architecture.md.

Usage: tools/check_layers.py [ROOT]      tools/check_layers.py --self-test
"""
import pathlib
import re
import sys

# Every module and the modules whose headers it may include (beside its own).
ALLOWED = {
    "kernels": set(),
    "include": set(),  # the public API: the standard library and itself
    "base": set(),
    "config": {"base"},
    "tensor": {"base"},
    "model": {"base", "tensor"},
    "text": {"base"},
    "sampling": {"base", "tensor"},
    "kv": {"base"},
    "sched": {"base", "kv"},
    "backend": {"base", "tensor", "model", "kernels"},
    "engine": {"base", "tensor", "kv", "sched", "backend", "sampling", "model"},
    "registry": {"base", "config", "tensor", "model", "text", "sampling", "sched", "backend", "engine"},
    "obs": {"base", "engine", "sched", "sampling", "backend", "model", "tensor"},
    "serve": {"base", "config", "tensor", "model", "text", "sampling", "sched", "backend", "engine", "registry",
              "obs"},
}
ALLOWED["embed"] = ALLOWED["registry"] | {"registry", "include"}
ALLOWED["cli"] = set(ALLOWED)
# Front ends know each other's common part, never one another.
SEPARATE = [("serve/grpc", "serve/http"), ("serve/http", "serve/grpc")]
TOPS = ("src", "kernels", "include")
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".inc", ".inl"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def module_of(path):
    """The module that an include path or a source path (relative to the root) belongs to, or None."""
    parts = path.parts
    if parts[0] in ("kernels", "include"):
        return parts[0]
    if parts[0] == "skipjack" and not path.name.endswith(".pb.h"):  # how headers of include/ are included
        return "include"
    if parts[0] == "src":
        parts = parts[1:]
    return parts[0] if len(parts) > 1 and parts[0] in ALLOWED else None


def violations_in(source, text):
    module = module_of(source)
    if module is None:
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        included = pathlib.PurePosixPath(match.group(1))
        target = module_of(included)
        if target and target != module and target not in ALLOWED[module]:
            yield f"{source}:{number}: {module} may not include {target} ({included})"
        for one, other in SEPARATE:
            if one in str(source) and str(included).startswith(other):
                yield f"{source}:{number}: {one} may not include {other} ({included})"


def check(root):
    sources = [p for top in TOPS for p in sorted((root / top).rglob("*")) if p.suffix in SUFFIXES]
    if not sources:
        return [f"no sources under {root}"]
    found = []
    for path in sources:
        relative = pathlib.PurePosixPath(path.relative_to(root).as_posix())
        if relative.parts[0] == "src" and len(relative.parts) > 2 and module_of(relative) is None:
            found.append(f"{relative}: no such module in tools/check_layers.py")
        found += violations_in(relative, path.read_text(encoding="utf-8"))
    return found


def self_test():
    def bad(source, line):
        return list(violations_in(pathlib.PurePosixPath(source), line))

    assert bad("src/kv/pool.h", '#include "sched/scheduler.h"')
    assert bad("src/sched/a.cc", '#include "engine/engine.h"')
    assert bad("kernels/cpu/a.cc", '  #  include "base/status.h"')
    assert bad("src/serve/http/a.cc", '#include "serve/grpc/b.h"')
    assert bad("src/text/a.cc", '#include "model/gguf_file.h"')
    assert bad("include/skipjack/a.h", '#include "engine/engine.h"')
    assert bad("src/engine/a.cc", '#include "skipjack/skipjack.h"')
    assert bad("kernels/cpu/a.inl", '#include "base/status.h"')
    assert not bad("src/embed/a.cc", '#include "skipjack/skipjack.h"')
    assert not bad("include/skipjack/a.h", '#include "skipjack/b.h"')
    assert not bad("src/sched/a.cc", '#include "kv/pool.h"')
    assert not bad("src/backend/cpu/a.cc", '#include "kernels/cpu/isa.h"')
    assert not bad("src/text/a.cc", '#include <vector>')


def main():
    self_test()
    if sys.argv[1:] == ["--self-test"]:
        return 0
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    found = check(root)
    print("\n".join(found) or "every include follows the layer order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
