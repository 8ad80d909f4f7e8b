"""The Python client that OpenAPI Generator makes: registers a device, sends to its user, and reads the story of the message."""
import json
import os
import time
import uuid

import urllib3
from openapi_client import ApiClient, ApiException, Configuration, DevicesApi, EventsApi, NotificationsApi
from openapi_client.models import Audience, Content, DeviceInput, DeviceToken, DeviceTokens, Notification, Problem, State, Text

UNDER_WAY = {State.QUEUED, State.SCHEDULED, State.SENDING, State.RETRYING}


def send(notifications, notification, key):
    """Sends a notification once, also when an answer is lost: every attempt has the same key."""
    for pause in (1, 2, 4, 8, 16, 0):
        try:
            return notifications.send_notification(notification, idempotency_key=key, _request_timeout=10)
        except ApiException as error:
            if isinstance(error.data, Problem) and not error.data.retryable:
                raise
            failure, pause = error, max(pause, int((error.headers or {}).get("Retry-After", 0)))
        except urllib3.exceptions.HTTPError as error:
            failure = error
        time.sleep(pause)
    raise failure


def main():
    configuration = Configuration(host=os.environ["CHAPAR_URL"], access_token=os.environ["CHAPAR_KEY"])
    configuration.retries = False  # `send` repeats, with the key.
    with ApiClient(configuration) as client:
        notifications = NotificationsApi(client)

        phone = DeviceInput(user="ali", tokens=DeviceTokens(ios_apns=DeviceToken("abcdef12")), locale="fa-IR")
        device = DevicesApi(client).put_device("phone-1", phone)
        print("registered", device.id)

        notification = Notification(
            to=Audience(users=["ali"]), content=Content(title=Text("Order 42"), body=Text("is on its way"))
        )
        accepted = send(notifications, notification, key=str(uuid.uuid4()))
        print("accepted", accepted.id)

        story = notifications.get_notification(accepted.id)
        while story.status in UNDER_WAY:
            time.sleep(0.2)
            story = notifications.get_notification(accepted.id)
        print("status", story.status.value, story.counts)
        for delivery in notifications.list_deliveries(accepted.id).items:
            print("delivery", delivery.state.value, [attempt.outcome for attempt in delivery.attempts])

        # A stream has no end: read it line by line.
        events = EventsApi(client).stream_events_without_preload_content(last=100, types="delivery.*")
        for line in events:
            if line.startswith(b"data:"):
                event = json.loads(line.removeprefix(b"data:"))
                if event["notification"] == accepted.id:
                    print("event", event["type"])
                    break
        events.close()


if __name__ == "__main__":
    main()
