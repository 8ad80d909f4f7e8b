import Foundation
import HTTPTypes
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparDelivery

/// Python with PyPI's `standardwebhooks`; `CHAPAR_PYTHON` names it.
private enum Judge {
    static let python = ProcessInfo.processInfo.environment["CHAPAR_PYTHON"] ?? "python3"
    static let isThere = (try? run(["-c", "import standardwebhooks"]))?.status == 0

    /// Runs Python for at most half a minute.
    static func run(_ arguments: [String]) throws -> (status: Int32, lines: [String]) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["timeout", "30", python] + arguments
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = FileHandle.nullDevice
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        let lines = String(decoding: output, as: UTF8.self).split(separator: "\n").map(String.init)
        return (process.terminationStatus, lines)
    }

    /// Returns what the library says of each request, under a key.
    static func judge(_ requests: [(WebhookSecret, WebhookReceiver.Request)]) throws -> [String] {
        let file = FileManager.default.temporaryDirectory.appending(path: "webhooks-\(UUID().uuidString).jsonl")
        defer { try? FileManager.default.removeItem(at: file) }
        var text: [UInt8] = []
        for (secret, request) in requests {
            var headers = JSONObject()
            for (name, value) in request.fields { headers[name] = .string(value) }
            let line: JSONValue = [
                "secret": .string(secret.text.reveal()), "headers": .object(headers),
                "body": .string(Data(request.body).base64EncodedString()),
            ]
            text += line.bytes + [10]
        }
        try Data(text).write(to: file)
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "Fixtures/judge.py")
        return try run([script.path, file.path]).lines
    }
}

@Suite(
    "Webhooks before PyPI's standardwebhooks",
    .timeLimit(.minutes(1)),
    .enabled(if: Judge.isThere, "needs Python with standardwebhooks; see CHAPAR_PYTHON")
)
struct WebhookPeerTests {
    @Test("every request of a run verifies: single, repeated, batched, tested, in any script")
    func run() async throws {
        // The library compares the time with the machine's.
        try await WebhookRig.run(time: ManualTime(Date())) { rig, receiver in
            receiver.answer { request, repeats in
                .status(request.path == "/plain" && repeats == 0 ? 500 : 200)
            }
            let plain = try await rig.add("plain", receiver.url("/plain"))
            let batch = try await rig.add("batch", receiver.url("/batch"), #","batch":true"#)
            try await rig.publish("delivery.failed", more: #","notification":"سفارش ۴۲ 🚚","metadata":{"متن":"«خوب»"}"#)
            try await rig.publish("backend.parked", "delivery.failed")
            _ = try await rig.call(.post, "/v1/webhooks/plain/test", "{}")
            try await rig.wait("all have come", moving: .milliseconds(100)) { receiver.requests.count >= 8 }
            let requests = receiver.requests
            let judged = try Judge.judge(requests.map { ($0.path == "/plain" ? plain : batch, $0) })
            #expect(judged == requests.map { _ in "verified" })
        }
    }

    @Test("a changed byte, id or time is refused, and a rotation verifies with the old key alone and the new one alone")
    func changes() async throws {
        try await WebhookRig.run(time: ManualTime(Date())) { rig, receiver in
            let old = try await rig.add("hook", receiver.url())
            let reply = try await rig.call(.post, "/v1/webhooks/hook/rotate", "{}")
            let new = try #require(WebhookSecret(Secret(reply.json["secret"]?.stringValue ?? "")))
            // The sender has the new key a moment after the answer.
            var request: WebhookReceiver.Request
            repeat {
                let count = receiver.requests.count
                try await rig.publish("delivery.failed")
                try await receiver.wait(for: count + 1)
                request = receiver.requests[count]
            } while request.signatures.split(separator: " ", omittingEmptySubsequences: false).count < 2
            var (body, id, time) = (request, request, request)
            body.body[body.body.count - 2] ^= 1
            id.fields["webhook-id"] = request.id + "0"
            time.fields["webhook-timestamp"] = String(request.timestamp + 1)
            let judged = try Judge.judge([
                (old, request), (new, request), (new, body), (new, id), (new, time), (WebhookSecret.make(), request),
            ])
            #expect(judged == ["verified", "verified", "refused", "refused", "refused", "refused"])
        }
    }
}
