"""Shows that the replay can fail: what was answered is bent and compared once more; each bend must be told, at its place."""
import copy
import re

from shapes import recorded


def edited(pattern, replacement):
    """Bends the text of an answer."""
    def bend(answer):
        answer.body, count = re.subn(pattern, replacement, answer.body)
        if not count:
            raise ValueError(f"the answer has no {pattern!r}")
    return bend


# What is bent, in which case, how, and where the difference must be told.
BENT = [
    ("a field is gone", "api: send", edited(rb'"warnings":\[\]', b'"notes":[]'), "body.warnings"),
    ("a field has another type", "api: send", edited(rb'"count":1', b'"count":"1"'), "body.recipients.count"),
    ("a state is another", "api: state of a failure", edited(rb'"status":"failed"', b'"status":"lost"'), "body.status"),
    ("a pointer is another", "errors: no recipient", edited(rb'"#/to"', b'"/to"'), "body.errors[].pointer"),
    ("the status is another", "errors: no recipient", lambda answer: setattr(answer, "status", 400), "status"),
    ("a header field is gone", "errors: no key", lambda answer: answer.headers.clear(), "headers.www-authenticate"),
    ("a label is renamed", "observed: metrics", edited(rb"chapar_queue_depth\{backend=", b"chapar_queue_depth{lane="),
     "metrics.chapar_queue_depth.labels[]"),
    ("a metric is gone", "observed: metrics", edited(rb"chapar_store_up", b"chapar_store"), "metrics.chapar_store_up.type"),
    ("an event is renamed", "observed: events", edited(rb"event: delivery.failed", b"event: delivery.lost"),
     "events.delivery.failed.state"),
    ("a parameter is renamed", "openapi: description", edited(rb'"name":\s*"limit"', b'"name":"most"'),
     "description.GET /v1/devices.parameters.query limit"),
]


def faults(answers, fresh):
    """What is not told, by the answers that came; `fresh` makes the contract anew."""
    wrong = []
    for what, name, bend, place in BENT:
        answer = copy.deepcopy(answers[name])
        bend(answer)
        if place not in places(fresh(), name, answer):
            wrong.append(f"{what}: not told at {name}: {place}")
    contract = fresh()
    contract.changes = {"errors: no key": [("1", {"differences": [{"at": "status", "before": 401, "after": 403}]})]}
    places(contract, "errors: no key", answers["errors: no key"])
    if not any("did not happen" in text for _, text, _ in contract.found):
        wrong.append("a listed change that did not happen is not told")
    contract = fresh()
    contract.groups["openapi"] = contract.groups["openapi"][:-1]
    contract.look_for_examples()
    if not any("answer" not in case for case in contract.groups["openapi"]):
        wrong.append("an example of the description without a recording is not told")
    contract = fresh()
    shown = {"page": "README.md", "request": "GET /v1/new", "answer": {"status": 200}}
    contract.play_documents([], [shown])
    if not contract.fresh:
        wrong.append("a request of a page without a recording is not told")
    contract = fresh()
    command = next(case for case in contract.groups["commands"] if case["case"] == "check")
    contract.compare("commands", command, {**command["answer"], "exit code": 7})
    if not contract.found:
        wrong.append("another exit code is not told")
    return wrong


def places(contract, name, answer):
    """Where an answer differs from its recording."""
    group, title = name.split(": ", 1)
    case = next(case for case in contract.groups[group] if case["case"] == title)
    contract.compare(group, case, recorded(answer, case.get("reads")))
    return {one["at"] for _, _, differences in contract.found for one in differences}
