"""The client that openapi-python-client makes: registers a device, sends to its user, and reads the story of the message."""
import json
import os
import time
import uuid

import httpx
from chapar_client import AuthenticatedClient
from chapar_client.api.devices import put_device
from chapar_client.api.notifications import get_notification, list_deliveries, send_notification
from chapar_client.models import Accepted, Audience, Content, DeviceInput, DeviceTokens, Notification, Problem, State

UNDER_WAY = {State.QUEUED, State.SCHEDULED, State.SENDING, State.RETRYING}


def send(client, notification, key):
    """Sends a notification once, also when an answer is lost: every attempt has the same key."""
    for pause in (1, 2, 4, 8, 16, 0):
        try:
            answer = send_notification.sync_detailed(client=client, body=notification, idempotency_key=key)
        except (httpx.TransportError, ValueError) as error:  # No answer, or a proxy's page in the place of JSON.
            failure = error
        else:
            if isinstance(answer.parsed, Accepted):
                return answer.parsed
            failure = RuntimeError(f"{answer.status_code}: {answer.content.decode(errors='replace')}")
            if isinstance(answer.parsed, Problem) and not answer.parsed.retryable:
                raise failure
            pause = max(pause, int(answer.headers.get("Retry-After", 0)))
        time.sleep(pause)
    raise failure


def main():
    client = AuthenticatedClient(base_url=os.environ["CHAPAR_URL"], token=os.environ["CHAPAR_KEY"], timeout=httpx.Timeout(10))

    phone = DeviceInput(user="ali", tokens=DeviceTokens(ios_apns="abcdef12"), locale="fa-IR")
    device = put_device.sync("phone-1", client=client, body=phone)
    print("registered", device.id)

    notification = Notification(to=Audience(users=["ali"]), content=Content(title="Order 42", body="is on its way"))
    accepted = send(client, notification, key=str(uuid.uuid4()))
    print("accepted", accepted.id)

    story = get_notification.sync(accepted.id, client=client)
    while story.status in UNDER_WAY:
        time.sleep(0.2)
        story = get_notification.sync(accepted.id, client=client)
    print("status", story.status, story.counts.to_dict())
    for delivery in list_deliveries.sync(accepted.id, client=client).items:
        print("delivery", delivery.state, [attempt.outcome for attempt in delivery.attempts])

    # A stream has no end: read it line by line.
    with client.get_httpx_client().stream("GET", "/v1/events", params={"last": 100, "types": "delivery.*"}) as events:
        for line in events.iter_lines():
            if line.startswith("data:"):
                event = json.loads(line.removeprefix("data:"))
                if event["notification"] == accepted.id:
                    print("event", event["type"])
                    break


if __name__ == "__main__":
    main()
