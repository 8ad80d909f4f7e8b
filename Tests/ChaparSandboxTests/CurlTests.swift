import Foundation
import ChaparSandbox
import Testing

@Suite("curl, untouched, against the simulator", .timeLimit(.minutes(1)), .enabled(if: Shell.hasCurlWithHTTP2))
struct CurlTests {
    static let token = String(repeating: "a1", count: 32)

    /// Status line, headers and body of one request.
    private func curl(_ simulator: APNsSimulator, _ listener: APNsListener, path: String, _ more: [String]) async throws
        -> String
    {
        try await Shell.withDirectory { directory in
            let ca = directory.appendingPathComponent("ca.pem")
            try Data(simulator.authority.certificatePEM.utf8).write(to: ca)
            let url = simulator.url(listener) + path
            return try await Shell.run(["curl", "-sS", "--http2", "-i", "--cacert", ca.path, url] + more).output
        }
    }

    @Test("A valid push is accepted and stands in the inbox")
    func accepted() async throws {
        try await APNsSimulator.run { simulator in
            simulator.register(tokens: [Self.token], topic: "com.example.app")
            let jwt = try simulator.key.providerToken(issuedAt: Date())
            let answer = try await curl(
                simulator,
                .production,
                path: "/3/device/\(Self.token)",
                [
                    "-H", "authorization: bearer \(jwt)", "-H", "apns-topic: com.example.app",
                    "-H", "apns-push-type: alert", "-H", "apns-id: 0D9F3C52-7f5e-4a0f-9b53-0c3a2e6b1f77",
                    "-d", #"{"aps":{"alert":"Hello"}}"#,
                ]
            )
            #expect(answer.hasPrefix("HTTP/2 200"))
            #expect(answer.contains("apns-id: 0D9F3C52-7f5e-4a0f-9b53-0c3a2e6b1f77"))
            #expect(!answer.contains("apns-unique-id"), "only the development host has it")
            let delivery = try #require(simulator.inbox.first)
            #expect(delivery.token == Self.token)
            #expect(delivery.payload == Array(#"{"aps":{"alert":"Hello"}}"#.utf8))
            #expect(delivery.header("apns-push-type") == "alert")
            #expect(delivery.header("authorization") == nil, "credentials are not kept")
        }
    }

    @Test("A refusal names its reason")
    func refused() async throws {
        try await APNsSimulator.run { simulator in
            let jwt = try simulator.key.providerToken(issuedAt: Date())
            let answer = try await curl(
                simulator,
                .production,
                path: "/3/device/\(Self.token)",
                ["-H", "authorization: bearer \(jwt)", "-H", "apns-topic: com.example.app", "-d", "{}"]
            )
            #expect(answer.hasPrefix("HTTP/2 400"))
            #expect(answer.hasSuffix(#"{"reason":"BadDeviceToken"}"#))
            #expect(simulator.counters.refused == ["BadDeviceToken": 1])
        }
    }
}
