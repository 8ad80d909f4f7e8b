"""Sends through firebase-admin, untouched but for addresses and CA, and prints what came of it as one JSON line each.

Usage: firebase_check.py SEND_URL IID_URL CA_FILE SERVICE_ACCOUNT_FILE
"""

import json
import os
import sys

send_url, iid_url, ca_file, account_file = sys.argv[1:]
os.environ["REQUESTS_CA_BUNDLE"] = ca_file
os.environ["SSL_CERT_FILE"] = ca_file

import firebase_admin  # noqa: E402
from firebase_admin import credentials, exceptions, messaging  # noqa: E402

service = messaging._MessagingService
service.FCM_URL = send_url + "/v1/projects/{0}/messages:send"
service.IID_URL = iid_url
firebase_admin.initialize_app(credentials.Certificate(account_file), {"httpTimeout": 20})


def show(name, *values):
    print(json.dumps([name, *values]), flush=True)


def send(name, dry_run=False, **fields):
    fields.setdefault("notification", messaging.Notification(title="Parcel", body="Out for delivery"))
    try:
        answer = messaging.send(messaging.Message(**fields), dry_run=dry_run)
        show(name, "ok", answer.split("/")[-1] == "fake_message_id")
    except exceptions.FirebaseError as error:
        show(name, type(error).__name__, error.code, error.http_response.status_code)


send("token", token="python:1")
send("topic", topic="news")
send("condition", condition="'news' in topics && !('de' in topics)")
send("dry-run", dry_run=True, token="python:1")
send(
    "blocks",
    token="python:1",
    data={"order": "4711"},
    android=messaging.AndroidConfig(
        priority="high",
        ttl=3600,
        collapse_key="order-4711",
        notification=messaging.AndroidNotification(
            channel_id="delivery", tag="order-4711", color="#00ff7f", sticky=True, notification_count=3,
            vibrate_timings_millis=[100, 200], visibility="public", priority="high",
            light_settings=messaging.LightSettings(color="#ff0000", light_on_duration_millis=100,
                                                   light_off_duration_millis=100),
        ),
    ),
    apns=messaging.APNSConfig(
        headers={"apns-priority": "10"},
        payload=messaging.APNSPayload(aps=messaging.Aps(sound="default", badge=1)),
    ),
    webpush=messaging.WebpushConfig(
        headers={"TTL": "3600"}, fcm_options=messaging.WebpushFCMOptions(link="https://example.com/o/4711")
    ),
    fcm_options=messaging.FCMOptions(analytics_label="delivery"),
)
send("unregistered", token="sim-unregistered-1")
send("mismatch", token="sim-mismatch-1")
send("bad-token", token="sim-badtoken-1")
send("quota", token="sim-quota1-1")
send("apns-auth", token="sim-apnsauth-1")
send("503-then-200", token="sim-503-1")
send("too-large", token="python:1", data={"k": "x" * 5000})
send("reserved", token="python:1", data={"from": "x"})

many = messaging.send_each([messaging.Message(token=f"python:{n}", data={"n": str(n)}) for n in range(100)])
show("many", many.success_count, many.failure_count)

subscribe = getattr(messaging, "subscribe_to_topic_legacy", messaging.subscribe_to_topic)
unsubscribe = getattr(messaging, "unsubscribe_from_topic_legacy", messaging.unsubscribe_from_topic)
joined = subscribe(["python:1", "sim-unregistered-1"], "news")
show("subscribe", joined.success_count, [error.reason for error in joined.errors])
show("unsubscribe", unsubscribe(["python:1"], "news").success_count)
