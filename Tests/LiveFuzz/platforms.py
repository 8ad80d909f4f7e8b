"""Answers of platforms with boundary values, by the fault rules of the sandbox's control port, and what makes a gateway ask for them."""
import json
import re

import values

STATUSES = [200, 201, 202, 203, 204, 206, 207, 299, 300, 301, 302, 304, 307, 308, 399, 400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 411, 412, 413, 414,
            415, 421, 422, 423, 425, 426, 428, 429, 431, 451, 499, 500, 501, 502, 503, 504, 505, 507, 508, 511, 520, 529, 599]
WAITS = [number for number in [*values.EDGES, *values.MOMENTS] if -2**63 <= number < 2**63]
# Header fields that plugins and the client read, and what may stand in them.
NAMES = ["retry-after", "retryafter", "date", "apns-id", "apns-unique-id", "apns-channel-id", "location", "idempotent-replayed", "content-type", "content-encoding"]
FIELDS = [text for text in values.header_values() if text.isprintable() and text.isascii() and len(text) < 4000]
# Each platform's words; `@` is where a boundary value goes.
TEMPLATES = {
    "apns": ['{"reason":"Unregistered","timestamp":@}', '{"reason":"ExpiredToken","timestamp":@}', '{"reason":"BadDeviceToken","timestamp":@}', '{"reason":@}',
             '{"reason":"TooManyRequests","timestamp":@}', '{"channels":[@]}', '{"apns-channel-id":@}', '{"message-storage-policy":@,"push-type":"LiveActivity"}'],
    "fcm": ['{"name":@}', '{"name":"projects/p/messages/@"}', '{"error":{"code":@,"status":"RESOURCE_EXHAUSTED","message":"m"}}', '{"error":{"code":429,"status":@}}',
            '{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":@}]}}'.replace('"@type"', '"\\u0040type"'),
            '{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"\\u0040type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"@s"}]}}',
            '{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"\\u0040type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaValue":@,"subject":@}]}]}}',
            '{"access_token":"a","expires_in":@,"token_type":"Bearer"}', '{"access_token":@,"expires_in":3600}', '{"results":[{"error":@}]}', '{"results":[@]}', '{"results":@}',
            '{"application":@,"rel":{"topics":{"news":{"addDate":@}}}}', '{"results":[{"apns_token":"a","status":"OK","registration_token":@}]}'],
    "hms": ['{"code":@,"msg":"m","requestId":"1"}', '{"code":"80000000","msg":"Success","requestId":@}', '{"code":"80100000","msg":@,"requestId":"1"}',
            '{"code":"80100000","msg":"{\\"success\\":@,\\"failure\\":@,\\"illegal_tokens\\":[\\"a\\"]}","requestId":"1"}', '{"access_token":"a","expires_in":@}',
            '{"error":@,"sub_error":@,"error_description":"d"}', '{"code":"80000000","msg":"Success","topics":[{"name":"n","addDate":@}]}',
            '{"code":"80000000","successCount":@,"failureCount":@,"errors":[{"index":@,"reason":"r"}]}'],
    "rustore": ['{"code":@,"status":"NOT_FOUND","message":@}', '{"error":{"code":404,"status":@,"message":"m"}}', '{"Status":@}', '{"status":"PROVIDER_ERROR","code":@,"errors":[@]}'],
    "onesignal": ['{"id":@,"recipients":1}', '{"id":"b98881cc-1e94-4366-bbd9-db8f3429292b","recipients":@,"external_id":@}', '{"errors":@}', '{"errors":[@]}',
                  '{"errors":[{"code":@,"title":"t","meta":@}]}', '{"errors":{"invalid_player_ids":[@]}}', '{"errors":{"invalid_aliases":{"external_id":[@]}}}',
                  '{"identity":{"onesignal_id":@},"subscriptions":[{"id":@,"enabled":@}],"properties":{"tags":@}}', '{"success":@,"id":@}',
                  '{"identifier":"x","notification_types":@,"tags":{"a":@},"last_active":@}', '{"successful":@,"failed":@,"errored":@,"converted":@,"remaining":@,"completed_at":@}'],
    "oauth2": ['{"access_token":"a","expires_in":@}', '{"access_token":@,"refresh_token":@,"expires_in":3600}', '{"error":@}', '{"access_token":"a","refresh_token":"b","expires_in":@}'],
    "altcraft": ['{"error":@,"error_text":@}', '{"error":0,"error_text":"","result":[{"id":@}]}', '{"error":0,"profile":{"id":@,"subscription":{"subscription_id":@,"fields":{"a":@}}}}',
                 '{"error":0,"uid":@}', '{"error":0,"profile":{"subscription":{"hash_id":@,"cats":[{"name":@,"active":@}],"status":@}}}'],
    "chabok": ['[{"id":@,"count":1}]', '[{"id":"m-1","count":@},{"id":"m-2","count":@}]', '{"ids":[@]}', '{"count":@}', '@', '{"id":"i-1","userId":"ada","tags":[@],"createdAt":@}',
               '{"error":{"statusCode":@,"code":@,"message":"bad"}}', '[{"id":"i-1","deviceToken":@,"updatedAt":@}]'],
    "idpush": ['{"status":@,"player_id":@}', '{"status":1,"player_id":@}', '{"status":1,"player_id":"p-1","message":@}', '{"status":0,"message":@}', '@'],
    "http": ['{"outcomes":[{"id":"0","outcome":"accepted","platform_id":@}]}', '{"outcomes":[{"id":"0","outcome":"refused","kind":"token","reason":"r","retry":"later","retry_after":@}]}',
             '{"outcomes":[{"id":"0","outcome":"refused","kind":@,"reason":@}]}', '{"outcomes":[{"id":@,"outcome":"unknown","reason":"r"}]}', '{"outcomes":@}',
             '{"outcomes":[{"id":"0","outcome":"refused","kind":"platform","reason":"r","retry":"pause","retry_after":@}]}',
             '{"outcomes":[{"id":"0","outcome":"refused","kind":"token","reason":"r","dead":true,"dead_since":@}]}'],
}
CORPORA = {"apns": ["apns"], "fcm": ["fcm"], "hms": ["hms"], "rustore": ["rustore"], "onesignal": ["onesignal"], "idpush": ["idpush"], "altcraft": ["altcraft"], "chabok": ["chabok"], "http": ["service"], "oauth2": ["hms"]}
REASONS = {"apns": ["Unregistered", "ExpiredToken", "BadDeviceToken", "TooManyRequests", "TooManyProviderTokenUpdates", "ExpiredProviderToken", "InternalServerError",
                    "ServiceUnavailable", "Shutdown", "PayloadTooLarge", "IdleTimeout", "TopicDisallowed", "BadTopic", "\u0000", "x" * 300],
           "hms": ["80000000", "80100000", "80200001", "80200003", "80300007", "80300008", "81000001", "80300010", "9223372036854775808", "code_number"],
           "rustore": ["NOT_FOUND", "UNREGISTERED", "INVALID_ARGUMENT:token", "TOO_MANY_REQUESTS", "PERMISSION_DENIED", "INTERNAL", "PROVIDER_ERROR:other"],
           "fcm": ["UNREGISTERED", "QUOTA_EXCEEDED", "UNAVAILABLE", "INTERNAL", "SENDER_ID_MISMATCH", "THIRD_PARTY_AUTH_ERROR", "INVALID_ARGUMENT"]}


def answers(name, random):
    """Answers of one platform, for ever: what fuzzing kept, then templates and corpora with boundary values."""
    kept = [entry.decode("utf-8", "replace") for corpus in CORPORA[name] for entry in values.corpus(corpus)]
    pieces = [piece for entry in kept for piece in entry.split("\n----\n")]
    for piece in pieces:
        head, _, body = piece.partition("\n\n")
        status = re.match(r"\d{3}", head)
        yield answer(int(status[0]) if status else 200, body=body or head)
    texts = values.json_values()
    while True:
        choice = random.randrange(6)
        if choice == 0:
            yield answer(random.choice(STATUSES), random.choice(REASONS.get(name, ["word"])), random.choice(WAITS), random=random)
        elif choice == 1:
            yield answer(random.choice((429, 503, 500, 502, 413, 200)), None, random.choice(WAITS), random.choice(texts), random)
        elif choice == 2:
            body = random.choice(pieces).partition("\n\n")[2] or "{}"
            numbers = list(re.finditer(r'-?\d+|"[^"]*"', body))
            if numbers:
                found = random.choice(numbers)
                body = body[:found.start()] + random.choice(texts) + body[found.end():]
            yield answer(random.choice((200, 200, 400, 404, 410, 429, 500, 503)), None, None, body, random)
        else:
            template = random.choice(TEMPLATES[name])
            body = re.sub("@", lambda _: random.choice(texts), template)
            yield answer(random.choice((200, 200, 200, 201, 400, 401, 403, 404, 409, 410, 422, 429, 500, 503)), None, random.choice((None, None, *WAITS[:3])), body, random)


def answer(status, reason=None, wait=None, body=None, random=None):
    """The step of a fault rule."""
    step = {"do": "answer", "status": min(599, max(200, status))}
    if reason is not None:
        step["reason"] = reason
    if wait is not None:
        step["retry_after"] = wait
        if random and random.random() < 0.2:
            step["retry_after_is_date"] = True
    if body is not None:
        step["body"] = body
    if random and random.random() < 0.2:
        step["timestamp"] = random.choice(WAITS)
    if random and random.random() < 0.3:
        step["headers"] = {name: random.choice(FIELDS) for name in random.sample(NAMES, 2)}
    return step


# What makes a gateway ask a platform, by the word of its simulator: method, target, body; `{backend}` is a backend that nothing has paused yet.
def message(to, **more):
    return {"to": to, "content": {"title": "Parcel", "body": "Out for delivery"}, "backend": "{backend}", **more}


def tokens(service, *texts):
    return {"tokens": [{"token": text, "service": service} for text in texts]}


SEND = "/v1/notifications"
TRIGGERS = {
    "apns": ("ios", [("POST", SEND, message(tokens("ios-apns", "5e01", "6f01"))), ("POST", SEND, message(tokens("ios-apns", "5e02"), options={"collapse_id": "c", "ttl": 0})),
                     ("GET", "/v1/backends/{backend}/channels", None), ("POST", "/v1/backends/{backend}/channels", {"message_storage": "newest"}),
                     ("GET", "/v1/backends/{backend}/channels/dGVzdC1jaGFubmVs", None), ("DELETE", "/v1/backends/{backend}/channels/dGVzdC1jaGFubmVs", None),
                     ("POST", SEND, message({"platform_ids": ["dGVzdC1jaGFubmVs"]}, overrides={"apns": {"headers": {"apns-push-type": "liveactivity"}, "payload": {"aps": {
                         "event": "update", "timestamp": 1767225600, "content-state": {}}}}}))]),
    "fcm": ("android", [("POST", SEND, message(tokens("android-firebase", "f1", "f2"))), ("POST", SEND, message({"topic": "news"})),
                        ("POST", "/v1/backends/{backend}/topics/news/subscribe", {"tokens": ["f1", "f2"]}), ("POST", "/v1/backends/{backend}/topics/lookup", {"token": "f1"}),
                        ("POST", "/v1/backends/{backend}/tokens/lookup", {"token": "f1"}),
                        ("POST", "/v1/backends/{backend}/tokens/import", {"tokens": ["4f1c"], "application": "com.example.app"})]),
    "hms": ("huawei", [("POST", SEND, message(tokens("android-huawei", "h1", "h2", "h3"))), ("POST", SEND, message({"topic": "news"})),
                       ("POST", "/v1/backends/{backend}/topics/news/subscribe", {"tokens": ["h1", "h2"]}), ("POST", "/v1/backends/{backend}/topics/lookup", {"token": "h1"})]),
    "rustore": ("rustore", [("POST", SEND, message(tokens("android-rustore", "r1", "r2")))]),
    "onesignal": ("campaigns", [("POST", SEND, message({"platform_ids": ["0c2ddf5e-5d4c-4f19-93b5-b9c6a2f1f9d1"]})), ("POST", SEND, message({"users": ["ali", "mina"]})),
                                ("POST", SEND, message({"everyone": True})), ("PUT", "/v1/devices/fuzz-1/subscription?wait=1", {"status": "subscribed", "backend": "{backend}"}),
                                ("GET", "/v1/devices/fuzz-1/subscription?backend={backend}", None), ("PATCH", "/v1/devices/fuzz-1/tags?wait=1", {"tags": {"plan": "pro"}}),
                                ("POST", "/v1/users/ali/switch", {"device": "fuzz-1"}), ("DELETE", SEND + "/{last}?platform=true", None)]),
    "altcraft": ("crm", [("POST", SEND, message({"users": ["ali"]})), ("POST", SEND, message({"platform_ids": ["7"]})),
                         ("PUT", "/v1/devices/fuzz-1/subscription?wait=1", {"status": "subscribed", "backend": "{backend}"}),
                         ("GET", "/v1/devices/fuzz-1/subscription?backend={backend}&query=latest", None), ("POST", "/v1/users/anonymous/switch", {"device": "fuzz-1"}),
                         ("POST", "/v1/devices/fuzz-1/events?wait=1", {"event": "opened", "payload": {"_ac_push": True, "_uid": "m-1"}})]),
    "chabok": ("chabok", [("POST", SEND, message({"users": ["ali", "mina"]})), ("POST", SEND, message({"topic": "public"})),
                          ("POST", "/v1/backends/{backend}/messages/cancel", {"user": "ali", "ids": ["m-1"]}),
                          ("POST", "/v1/backends/{backend}/clicks", {"user_id": "ali", "action_identifier": "x", "user_info": {"message": {"id": "m1", "content": "c"}}}),
                          ("PATCH", "/v1/devices/fuzz-1/tags?wait=1", {"tags": {"vip": "1"}}), ("DELETE", SEND + "/{last}?platform=true", None)]),
    "idpush": ("idpush", [("PUT", "/v1/devices/fuzz-1/subscription?wait=1", {"status": "subscribed", "backend": "{backend}"}),
                          ("PUT", "/v1/devices/fuzz-1/subscription?wait=1", {"status": "unsubscribed", "backend": "{backend}"}),
                          ("GET", "/v1/devices/fuzz-1/subscription?backend={backend}", None), ("PATCH", "/v1/devices/fuzz-1/tags?wait=1", {"tags": {"plan": "pro"}}),
                          ("PUT", "/v1/devices/fuzz-1", {"user": "ali", "tokens": {"ios-apns": "5e01" * 16}, "locale": "fa-IR"})]),
    "http": ("service", [("POST", SEND, message({"platform_ids": ["p-1", "p-2"]})), ("POST", SEND, message(tokens("x-service", "t-1")))]),
    "oauth2": ("partner", [("POST", SEND, message({"platform_ids": ["0c2ddf5e-5d4c-4f19-93b5-b9c6a2f1f9d1"]}))]),
}


# The simulator that a platform's rules are set at, and its listener, where they are not called as the platform.
LISTENERS = {"idpush": ("onesignal", "idpush")}


def filled(value, names):
    """A trigger with names of the gateway in the place of {names}."""
    return json.loads(re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], found[0]), json.dumps(value)))
