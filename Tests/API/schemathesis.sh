#!/usr/bin/env bash
# Holds a running gateway to its own OpenAPI document: what it answers must be what the document says.
#
#   Tests/API/schemathesis.sh [URL]
#
# Without a URL it starts `chapar demo` (no account, free ports) and ends it afterwards. Environment:
#   CHAPAR         the program, default .build/debug/chapar
#   CHAPAR_PYTHON  a Python with schemathesis and openapi-spec-validator (pip install both), default python3
#   SECONDS_LIMIT  the time that generated requests may take, default 120
#   SEED           the seed of the generated requests, default 42
#   EXAMPLES       how many requests for each operation, default 60
#
# Left out: the event stream, which never ends; `positive_data_acceptance`, since a right request may name a backend that
# is not configured; `use_after_free`, since DELETE cancels a notification and leaves its story.
set -euo pipefail
cd "$(dirname "$0")/../.."
chapar=${CHAPAR:-.build/debug/chapar}
python=${CHAPAR_PYTHON:-python3}
work=$(mktemp -d)
demo=
cleanup() {
    if [ -n "$demo" ]; then kill -INT "$demo" 2>/dev/null || true; wait "$demo" 2>/dev/null || true; fi
    rm -rf "$work"
}
trap cleanup EXIT

url=${1:-}
if [ -z "$url" ]; then
    export no_proxy='*' NO_PROXY='*'  # The demonstration is on this machine.
    : >"$work/demo.log"  # The loop may read it before the background process has made it.
    "$chapar" demo --port 0 >"$work/demo.log" 2>&1 &
    demo=$!
    for _ in $(seq 600); do
        url=$(sed -n 's|^Dashboard: *\(http://[^/]*\)/.*|\1|p' "$work/demo.log")
        if [ -n "$url" ]; then break; fi
        kill -0 "$demo" 2>/dev/null || { cat "$work/demo.log"; exit 1; }
        sleep 0.1
    done
    [ -n "$url" ] || { cat "$work/demo.log"; echo "the demonstration did not come up within a minute" >&2; exit 1; }
fi

"$python" - "$url" "$work/openapi.json" <<'PYTHON'
import json, sys, urllib.request
from openapi_spec_validator import validate

with urllib.request.urlopen(sys.argv[1] + "/openapi.json", timeout=10) as answer:
    document = json.load(answer)
validate(document)
json.dump(document, open(sys.argv[2], "w"))
PYTHON

# Each device of a batch is judged by itself, within an answer of 200.
cat >"$work/schemathesis.toml" <<'TOML'
[[operations]]
include-operation-id = "putDevices"
checks.negative_data_rejection.enabled = false

# Who erases a user removes what was sent to it, while a repeated idempotency key still gets the first answer, with its id.
[[operations]]
include-operation-id = "getNotification"
checks.ensure_resource_availability.enabled = false
TOML

"$python" -m schemathesis.cli --config-file "$work/schemathesis.toml" run "$work/openapi.json" --url "$url" \
    --exclude-operation-id streamEvents \
    --exclude-checks positive_data_acceptance,use_after_free \
    --max-examples "${EXAMPLES:-60}" --max-time "${SECONDS_LIMIT:-120}" --seed "${SEED:-42}" --request-timeout 40 --no-color
