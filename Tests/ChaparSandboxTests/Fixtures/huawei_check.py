"""Huawei's own Python SDK (hpa) against the simulator, untouched but for addresses: prints one JSON list for each step.

Usage: huawei_check.py PUSH_URL TOKEN_URL APP_ID APP_SECRET GOOD_TOKEN OTHER_TOKEN DEAD_TOKEN
"""

import json
import sys
import warnings

warnings.filterwarnings("ignore")  # The SDK checks no certificate.

import hpa  # noqa: E402
from hpa import messaging  # noqa: E402

push_url, token_url, app_id, secret, good, other, dead = sys.argv[1:]
hpa.initialize_app(app_id, secret, token_server=token_url + "/oauth2/v3/token", push_open_url=push_url)


def tell(*values):
    print(json.dumps(values), flush=True)


def attempt(step, body):
    """Runs a step; the SDK takes every answer but 200 for an error."""
    try:
        body()
    except messaging.ApiCallError as error:
        tell(step, "http status code is 400" in str(error))


def alert(**fields):
    action = messaging.AndroidClickAction(action_type=3)
    shown = messaging.AndroidNotification(title="Parcel", body="Out for delivery", click_action=action,
                                          badge=messaging.AndroidBadgeNotification(add_num=1, clazz="Classic"), **fields)
    return messaging.AndroidConfig(collapse_key=-1, urgency="HIGH", ttl="3600s", bi_tag="check", notification=shown)


def send(step, validate_only=False, **fields):
    answer = messaging.send_message(messaging.Message(**fields), validate_only=validate_only)
    tell(step, answer.code, bool(answer.requestId))
    return answer


send("shown", token=[good, other], android=alert(tag="order-42"))
send("data", token=[good], data=json.dumps({"order": 42}))
send("checked", validate_only=True, token=[good], data="x")
some = json.loads(send("some", token=[good, dead], android=alert()).reason)
tell("listed", some["success"], some["failure"], some["illegal_tokens"] == [dead])
attempt("none", lambda: send("none", token=[dead], data="x"))
attempt("too large", lambda: send("too large", token=[good], data="x" * 5000))
attempt("collapse key", lambda: send("collapse key", token=[good], data="x",
                                     android=messaging.AndroidConfig(collapse_key=101)))
send("topic", topic="news", android=alert())
send("condition", condition="'news' in topics && !('de' in topics)", android=alert())
apple = messaging.APNsConfig(payload=messaging.APNsPayload(messaging.APNsAps(
    alert=messaging.APNsAlert(title="Parcel", body="Out for delivery"))),
    apns_hms_options=messaging.APNsHMSOptions(target_user_type=2))
send("apple", token=[good], apns=apple)

joined = messaging.subscribe_topic("news", [good, dead])
tell("joined", joined.code, int(joined.successCount), int(joined.failureCount), [error["index"] for error in joined.errors])
tell("topics", [topic["name"] for topic in messaging.list_topics(good).topics])
tell("left", int(messaging.unsubscribe_topic("news", [good]).successCount), messaging.list_topics(good).topics)
