"""Sends through aioapns, untouched but for host, port and CA, and prints what came of it as one JSON line per push.

Usage: aioapns_check.py HOST PORT CA_FILE KEY_FILE KEY_ID TEAM_ID TOPIC GOOD_TOKEN GONE_TOKEN
"""

import asyncio
import json
import logging
import ssl
import sys
import time
from uuid import uuid4

from aioapns import APNs, NotificationRequest, PushType
from aioapns.connection import APNsProductionClientProtocol

logging.disable(logging.CRITICAL)


async def main():
    host, port, ca_file, key_file, key_id, team_id, topic, good, gone = sys.argv[1:]
    APNsProductionClientProtocol.APNS_SERVER = host
    APNsProductionClientProtocol.APNS_PORT = int(port)
    context = ssl.create_default_context(cafile=ca_file)
    context.set_alpn_protocols(["h2"])
    with open(key_file) as file:
        key = file.read()
    apns = APNs(key=key, key_id=key_id, team_id=team_id, topic=topic, ssl_context=context, max_connections=1)

    async def send(name, **fields):
        message = fields.pop("message", {"aps": {"alert": "Hello"}})
        request = NotificationRequest(message=message, notification_id=str(uuid4()), **fields)
        result = await asyncio.wait_for(apns.send_notification(request), 20)
        print(json.dumps([name, result.status, result.description, result.timestamp]), flush=True)

    await send("alert", device_token=good, push_type=PushType.ALERT, priority=10, time_to_live=60, collapse_key="a")
    await send("background", device_token=good, push_type=PushType.BACKGROUND, priority=5)
    await send("background-10", device_token=good, push_type=PushType.BACKGROUND, priority=10)
    await send("unknown", device_token="ab" * 32)
    await send("gone", device_token=gone)
    await send("too-large", device_token=good, message={"aps": {"alert": "x" * 5000}})
    await send("other-topic", device_token=good, apns_topic="com.example.other")
    started = time.monotonic()
    await asyncio.gather(*(send("many", device_token=good, message={"n": n}) for n in range(500)))
    print(json.dumps(["seconds", time.monotonic() - started]), file=sys.stderr)
    apns.pool.close()


asyncio.run(main())
