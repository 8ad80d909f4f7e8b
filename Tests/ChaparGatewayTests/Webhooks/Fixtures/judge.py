"""Verifies requests with PyPI's standardwebhooks: judge.py FILE, one JSON object a line with secret, headers and body (base64).

Prints one word a line: verified, refused, or the name of an error that the library does not declare."""

import base64
import json
import sys

from standardwebhooks import Webhook, WebhookVerificationError

for line in open(sys.argv[1], encoding="utf-8"):
    request = json.loads(line)
    try:
        Webhook(request["secret"]).verify(base64.b64decode(request["body"]), request["headers"], json_parse=False)
        print("verified")
    except WebhookVerificationError:
        print("refused")
    except Exception as error:  # An uncaught error would crash a receiver.
        print(type(error).__name__)
