#!/usr/bin/env python3
"""A messenger's bot, as a service for Chapar's backend `http`. A device's chat is its token of `x-bot`.

usage: BOT_TOKEN=… bot.py PORT SECRET API_URL [FILE]        (port 0: a free one; FILE keeps what was sent)

The API is the one that bots of many messengers have: `POST API_URL/botTOKEN/sendMessage` with `{"chat_id", "text"}` answers
`{"ok": true, "result": {"message_id"}}`, or `{"ok": false, "error_code", "description", "parameters": {"retry_after"}}`.
"""
import os, sys
from channel import Refused, call, run

LONGEST = 4096


def sender(url, token):
    """Returns the function that writes to one chat, and returns the id of the message."""

    def send(chat, text, _):
        status, answer, wait = call(f"{url}/bot{token}/sendMessage", {"chat_id": chat, "text": text[:LONGEST]})
        if answer.get("ok"):
            return answer.get("result", {}).get("message_id", "")
        code, detail = answer.get("error_code", status), str(answer.get("description", ""))[:200]
        if code == 429:  # One chat, or all of them: the API does not say which.
            after = answer.get("parameters", {}).get("retry_after", wait or 5)
            raise Refused("platform", "too_many", detail=detail, retry="backend", retry_after=after)
        if code in (401, 404):  # The bot's own token.
            raise Refused("account", f"code_{code}", detail=detail, retry="operator")
        if code == 403 or "chat not found" in detail.lower():  # The person has blocked the bot, or never wrote to it.
            raise Refused("token", "blocked" if code == 403 else "no_chat", detail=detail)
        if 400 <= code < 500:
            raise Refused("message", f"code_{code}", detail=detail)
        raise OSError(f"code {code}")  # It may have gone out.

    return send


if __name__ == "__main__":
    run(sender(sys.argv[3], os.environ["BOT_TOKEN"]), int(sys.argv[1]), sys.argv[2], (sys.argv + ["bot.db"])[4])
