import ChaparCore
import ChaparQueue
import ChaparTesting
import Foundation
import Synchronization
import Testing

@testable import ChaparDelivery

/// Python with PyPI's `opentelemetry-proto`; `CHAPAR_PYTHON` names it.
private enum Judge {
    static let python = ProcessInfo.processInfo.environment["CHAPAR_PYTHON"] ?? "python3"
    static let isThere = (try? run(["-c", "import opentelemetry.proto.trace.v1.trace_pb2"]))?.status == 0

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

    /// Returns what the library says of each body.
    static func judge(_ bodies: [[UInt8]]) throws -> [String] {
        let file = FileManager.default.temporaryDirectory.appending(path: "traces-\(UUID().uuidString).jsonl")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data(bodies.flatMap { $0 + [10] }).write(to: file)
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "Fixtures/judge.py")
        return try run([script.path, file.path]).lines
    }
}

@Suite(
    "Spans before PyPI's opentelemetry-proto",
    .timeLimit(.minutes(1)),
    .enabled(if: Judge.isThere, "needs Python with opentelemetry-proto; see CHAPAR_PYTHON")
)
struct TracingPeerTests {
    @Test("every body is one that a collector reads: all members, any text, ids with leading zeros")
    func bodies() async throws {
        let parent = "00-00000000000000000000000000000001-0000000000000002-01"
        let context = try #require(TraceContext(traceparent: parent, tracestate: "a=1"))
        let exporter = TraceExporter(GatewayConfiguration.Tracing(endpoint: "http://127.0.0.1:4318"))
        for number in 1...600 {
            exporter.record(
                TraceSpan(
                    "send سفارش \"\(number)\"",
                    .client,
                    in: context,
                    id: number == 1 ? 1 : nil,
                    parent: number.isMultiple(of: 2) ? 2 : 0,
                    from: Date(timeIntervalSince1970: 1_800_000_000.123),
                    to: Date(timeIntervalSince1970: 1_800_000_001),
                    [("text", .text("«خوب»\u{1}")), ("number", .number(.max)), ("flag", .flag(true))],
                    failure: number.isMultiple(of: 3) ? "Busy" : nil,
                    link: number.isMultiple(of: 5) ? context : nil
                )
            )
        }
        let bodies = Mutex<[[UInt8]]>([])
        exporter.finish()
        await exporter.run(time: SystemTime(), metrics: GatewayMetrics(), logger: quiet, version: "1") { _, body in
            bodies.withLock { $0.append(body) }
            return 200
        }
        #expect(try Judge.judge(bodies.withLock { $0 }) == ["512", "88"])
    }
}
