"""Boundary values: as JSON text, as text in an address or a header, and as pieces of a gateway's own identifiers."""
import json
import re
from pathlib import Path
from urllib.parse import quote

CORPORA = Path(__file__).resolve().parents[1] / "Fuzz/corpora"

EDGES = sorted({
    sign * number + step
    for number in (0, 1, 2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**53, 2**62, 2**63, 2**64) for step in (-1, 0, 1) for sign in (1, -1)
} | {1000, 1001, 10_000, 10_001, 86_400, 2_419_200, 2_419_201, 10**18, 10**19, 10**40, -(10**40)})
# Whole numbers that a time in seconds or milliseconds may be, up to where a date ends.
MOMENTS = [1_767_225_600, 1_767_225_600_123, 253_402_300_799, 253_402_300_800, 9_223_372_036_854_775, 8_640_000_000_000_000]
FRACTIONS = ["0.5", "-0.5", "-0.0", "1.5", "1e-320", "1e15", "1e18", "9.223372036854775807e18", "9.3e18", "1.8446744073709552e19", "1e19", "1e38",
             "1e308", "-1e308", "1E400", "1e-400", "9007199254740993.0"]
# Numbers that JSON does not have.
NO_JSON = ["NaN", "Infinity", "-Infinity", "01", "+1", ".5", "1.", "0x10", "1e", "--1", "9" * 1000, "'x'", "undefined", "[", "]", "{", '"', ""]
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def identifier(number):
    """A notification's id, as thirteen characters: 64 bits in Crockford's alphabet."""
    return "".join(CROCKFORD[(number >> shift) & 31] for shift in range(60, -1, -5))


IDENTIFIERS = ["7ZZZZZZZZZZZZ", "7ZZZZZCF00000", "7ZZZZZCEZZZZZ", "8000000000000", "ZZZZZZZZZZZZZ", "0000000000000", "0000000000001",
               "zzzzzzzzzzzzz", "7ZZZZZZZZZZZ", "7ZZZZZZZZZZZZZ", "IIIIIIIIIIIII", "-000000000001"]
IDENTIFIERS += [identifier(number) for power in (53, 61, 62, 63) for number in (2**power - 1, 2**power, 2**power + 1) if number < 2**65]
IDENTIFIERS += [identifier(2**63 - step) for step in (2, 1000, 2**16, 2**20, 2**32)]

# What finds most: tried at every place before all others.
SHARP = ["-1", "0", str(2**31), str(2**53 + 1), str(2**62), str(2**63), str(2**64), "1e308", str(2**63 - 1), *IDENTIFIERS[:3]]

ODD = ["", " ", "a", "a" * 128, "a" * 129, "a" * 256, "a" * 257, "a" * 1025, "a" * 70_000, "\0", "a\0b", "\x01", "\x1b[31m", "\x7f", "\r\n", "a\r\nX: y",
       "\u0085", "\u2028", "\u202e", "\ufeff", "\ufffe", "\U0010ffff", "Z" + "\u0301" * 31, "\u200d" * 100, "😀" * 200, "%", "%00", "%zz", "%e2%28%a1", "'", '"',
       "\\", "\\u", "`", "$(id)", "{}", "[]", "..", "../../etc/passwd", "/", "//", "?", "#", ";", "&a=b", "null", "true", "-", "--", "*", ",", "a,b", "a:b",
       ":", "1/2", "0", "-1", "1e3", "NaN", "ios-apns", "ios-apns/voip", "ios-apns/live_activity_update/", "anonymous", "default", "everyone", "ios"]


def corpus(name):
    """The inputs that fuzzing kept for a reader."""
    return [file.read_bytes() for file in sorted((CORPORA / name).glob("*"))]


TIMES = [entry.decode(errors="replace").strip() for entry in corpus("time")] + [
    "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "10000-01-01T00:00:00Z", "292277026596-12-04T15:30:07Z",
    "-0001-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "2262-04-11T23:47:16.854775807Z", "2026-11-22T14:00:00+99:99", "2026-11-22T24:00:00Z",
    "2026-11-22T14:00:00." + "9" * 400 + "Z", "2026-13-01T00:00:00Z", "2050-01-01", "Fri, 31 Dec 9999 23:59:59 GMT",
]
CURSORS = [entry.decode("latin-1") for entry in corpus("cursor")] + [entry.decode("latin-1") for entry in corpus("last-event-id")]
TEXTS = [*ODD, *IDENTIFIERS, *TIMES, *CURSORS]
# Texts that are no Unicode: half of a pair, an escape that is none, bytes that are not UTF-8.
RAW_TEXTS = ['"\\ud800"', '"\\udfff"', '"\\ud83d\\ud83d"', '"\\udc00\\ud800"', '"a\\u00"', '"\\x41"', '"\\', '"\x01"', '"\x00"', '"\xff\xfe"', '"\xc0\x80"',
             '"\xed\xa0\x80"', '"\xf4\x90\x80\x80"', '"\\u0000"', '"a\\u0000b"', '"' + "\\u0301" * 40 + '"']
SHAPES = ["null", "true", "false", "[]", "{}", "[[]]", '[""]', "[null]", '{"":""}', '{"a":{"b":{"c":{}}}}', '{"a":1,"a":2}', "[" * 600 + "]" * 600,
          '{"a":' * 300 + "1" + "}" * 300, "[" + "0," * 20_000 + "0]", '["x"' + ',"x"' * 1001 + "]", '[{"a":1}]', "[[1,2],[3]]"]


def json_values():
    """Boundary values as JSON text; some are no JSON."""
    texts = [json.dumps(text) for text in TEXTS]
    numbers = [str(number) for number in [*EDGES, *MOMENTS]] + FRACTIONS
    return [*numbers, *(json.dumps(number) for number in numbers), *NO_JSON, *texts, *RAW_TEXTS, *SHAPES]


def address_values():
    """Boundary values for a step or a parameter of an address, escaped as callers do, and as they should not."""
    plain = [str(number) for number in [*EDGES, *MOMENTS]] + FRACTIONS + TEXTS + ["NaN", "Infinity", "0x10", "1_000", "１２３"]
    escaped = [quote(text, safe="", errors="surrogatepass") for text in plain]
    raw = [text for text in plain if text and re.fullmatch(r"[!-~]+", text) and quote(text, safe="") != text]
    return [*escaped, *raw, "%00", "%0d%0a", "%ff", "%c0%80", "%ed%a0%80", "%u0041", "%2e%2e%2f", "a%2fb", "+", "a+b", "%25", "=", "a=b=c"]


def header_values():
    """Boundary values for a header field; what would end the field is left to the raw heads."""
    plain = [str(number) for number in EDGES] + FRACTIONS + TEXTS
    return [text for text in plain if not re.search(r"[\r\n\0]", text)]
