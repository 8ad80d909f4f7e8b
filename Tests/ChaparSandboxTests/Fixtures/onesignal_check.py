"""OneSignal's own Python SDK against the simulator: prints one JSON list for each step.

usage: onesignal_check.py API_URL CA_FILE APP_ID API_KEY
"""

import json
import sys
import uuid

import onesignal
from onesignal.api import default_api
from onesignal.model.notification import Notification
from onesignal.model.properties_object import PropertiesObject
from onesignal.model.subscription import Subscription
from onesignal.model.subscription_body import SubscriptionBody
from onesignal.model.update_user_request import UpdateUserRequest
from onesignal.model.user import User

url, ca, app, key = sys.argv[1:5]
token = "9f3c0a51d2e84b7790aa16c3be52fd08417e6b2c95d0a3f8e1647b0c2d9f5a34"


def tell(*values):
    print(json.dumps(values, default=str), flush=True)


def attempt(step, body):
    """Runs a step; an API error is part of what is checked."""
    try:
        body()
    except onesignal.ApiException as error:
        tell(step, error.status)


def client(rest_key):
    configuration = onesignal.Configuration(host=url, rest_api_key=rest_key, ssl_ca_cert=ca)
    return default_api.DefaultApi(onesignal.ApiClient(configuration))


api = client(key)


def message(**fields):
    return Notification(app_id=app, contents={"en": "is on its way"}, headings={"en": "Order 42"}, **fields)


api.create_user(app, User(identity={"external_id": "cust@8812"}, subscriptions=[
    Subscription(type="iOSPush", token=token, enabled=True, notification_types=1)]))
user = api.get_user(app, "external_id", "cust@8812")
subscription = user.subscriptions[0].id
tell("user", user.identity["external_id"], user.subscriptions[0].token == token)

api.update_user(app, "external_id", "cust@8812", UpdateUserRequest(properties=PropertiesObject(tags={"city": "tehran"})))
tell("tags", api.get_user(app, "external_id", "cust@8812").properties["tags"])

idempotency = str(uuid.uuid4())
first = api.create_notification(message(include_subscription_ids=[subscription], idempotency_key=idempotency))
again = api.create_notification(message(include_subscription_ids=[subscription], idempotency_key=idempotency))
tell("sent", bool(first.id), first.id == again.id)

aliased = api.create_notification(message(include_aliases={"external_id": ["cust@8812"]}, target_channel="push"))
tell("alias", bool(aliased.id))

seen = api.get_notification(app, first.id)
tell("seen", seen.successful, seen.failed)
attempt("too late", lambda: api.cancel_notification(app, first.id))

api.update_subscription(app, subscription, SubscriptionBody(
    subscription=Subscription(type="iOSPush", token=token, enabled=False, notification_types=-31)))
nobody = api.create_notification(message(include_subscription_ids=[subscription]))
tell("nobody", nobody.id, nobody.to_dict().get("errors"))

attempt("bad id", lambda: api.create_notification(message(include_subscription_ids=["nobody"])))
attempt("no audience", lambda: api.create_notification(message()))
attempt("wrong key", lambda: client("os_v2_app_wrong").get_notification(app, first.id))

api.delete_subscription(app, subscription)
tell("deleted", len(api.get_user(app, "external_id", "cust@8812").to_dict().get("subscriptions", [])))
