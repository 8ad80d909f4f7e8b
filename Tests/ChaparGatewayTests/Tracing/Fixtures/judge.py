"""Reads bodies of OTLP over HTTP with PyPI's opentelemetry-proto: judge.py FILE, one body a line.

Prints the number of spans of each body. OTLP's JSON has ids in hexadecimal where protobuf's JSON has base64: only that is converted."""

import base64
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

IDS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def converted(value):
    if isinstance(value, list):
        return [converted(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64encode(bytes.fromhex(one)).decode() if name in IDS else converted(one)
        for name, one in value.items()
    }


for line in open(sys.argv[1], encoding="utf-8"):
    try:
        request = json_format.Parse(json.dumps(converted(json.loads(line))), ExportTraceServiceRequest())
        spans = [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
        for span in spans:
            assert len(span.trace_id) == 16 and len(span.span_id) == 8 and any(span.span_id), span
            assert len(span.parent_span_id) in (0, 8) and span.name and span.kind, span
            assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano, span
        service = [one.value.string_value for one in request.resource_spans[0].resource.attributes if one.key == "service.name"]
        assert service == ["chapar"], service
        print(len(spans))
    except Exception as error:
        print(type(error).__name__, error)
