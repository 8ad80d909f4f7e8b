#!/usr/bin/env python3
"""SMS by an aggregator's HTTP API, as a service for Chapar's backend `http`. A device's number is its token of `x-sms`.

usage: SMS_KEY=… sms.py PORT SECRET AGGREGATOR_URL [FILE]        (port 0: a free one; FILE keeps what was sent)

The aggregator of this sample takes `{"to", "from", "text", "client_id"}` with a bearer, and answers `{"id"}`. Change `sender`
to yours; keep what becomes of each answer.
"""
import os, re, sys
from channel import Refused, call, run

NUMBER = re.compile(r"\+[1-9][0-9]{6,14}")  # E.164.
LONGEST = 459  # Three parts of 153 characters.


def sender(url, key, name="Chapar"):
    """Returns the function that sends one SMS, and returns the aggregator's id of it."""

    def send(number, text, message_id):
        if not NUMBER.fullmatch(number):
            raise Refused("token", "not_a_number")
        value = {"to": number, "from": name, "text": text[:LONGEST], "client_id": message_id}
        status, answer, wait = call(url, value, {"authorization": f"Bearer {key}"})
        if status in (200, 201, 202):
            return answer.get("id", message_id)
        detail = str(answer.get("error", ""))[:200]
        if status in (401, 402, 403):  # The key, or no money left: an operator must act.
            raise Refused("account", f"status_{status}", detail=detail, retry="operator")
        if status == 429:
            raise Refused("platform", "too_many", detail=detail, retry="backend", retry_after=wait or 5)
        if status in (404, 410) or answer.get("error") == "unknown_number":
            raise Refused("token", "unknown_number", detail=detail)
        if status < 500:
            raise Refused("message", f"status_{status}", detail=detail)
        raise OSError(f"status {status}")  # It may have gone out.

    return send


if __name__ == "__main__":
    run(sender(sys.argv[3], os.environ["SMS_KEY"]), int(sys.argv[1]), sys.argv[2], (sys.argv + ["sms.db"])[4])
