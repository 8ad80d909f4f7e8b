import Foundation
import Logging
import ChaparCore
import Synchronization
import Testing

@testable import ChaparCommands

/// A reload reads the file and builds backends before it knows whether the file is right.
@Suite("A reload that fails", .timeLimit(.minutes(1)))
struct FailedReloadTests {
    /// Counts the pools that were made and those that were ended.
    private final class Tally: HTTPTransport {
        let counts = Mutex((made: 0, ended: 0))

        func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
            counts.withLock { $0.made += 1 }
            return Pool(tally: self)
        }
    }

    private struct Pool: HTTPPool {
        let tally: Tally
        var status: HTTPPoolStatus { HTTPPoolStatus() }

        func send(_ calls: [HTTPCall], report: @escaping @Sendable ([HTTPReply]) -> Void) async {}
        func replaceConnections() {}
        func shutdown(grace: Duration) async { tally.counts.withLock { $0.ended += 1 } }
    }

    private struct Pooled: PushBackend {
        let kind: BackendKind = "pooled"
        let audience = BackendAudience(services: [.iOSAPNs])
        let pool: any HTTPPool

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {}
    }

    private static let program = GatewayProgram(
        name: "test",
        backends: [
            BackendFactory("pooled", summary: "A backend with a pool.") { section, context in
                guard let endpoint = HTTPEndpoint(url: "http://127.0.0.1:1") else { return nil }
                let configuration = HTTPPoolConfiguration(endpoint: endpoint, version: .http1)
                return (try? context.http.pool(configuration)).map { Pooled(pool: $0) }
            }
        ]
    )

    private static func reload(_ text: String) async throws -> (made: Int, ended: Int) {
        let file = FileManager.default.temporaryDirectory.appending(path: "chapar-reload-\(UUID().uuidString).yaml")
        defer { try? FileManager.default.removeItem(at: file) }
        try text.write(to: file, atomically: true, encoding: .utf8)
        let transport = Tally()
        try await GatewayProgram.$current.withValue(program) {
            let bench = try BackendLoader(
                transport: transport,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            )
            try? await bench.reload(file.path) { _ in }
        }
        return transport.counts.withLock { $0 }
    }

    @Test("leaves no pool behind, and one that works keeps its own")
    func pools() async throws {
        let failed = try await Self.reload(
            "{ backends: { a: { kind: pooled }, b: { kind: pooled, bogus: 1 } }, routes: 7 }"
        )
        #expect(failed == (made: 2, ended: 2))
        let worked = try await Self.reload("backends: { a: { kind: pooled } }")
        #expect(worked == (made: 1, ended: 0))
    }
}
