import Logging
import ChaparCore
import ChaparHTTP
import ServiceLifecycle
import ServiceLifecycleTestKit
import Synchronization
import Testing

/// A client among the services of a program.
@Suite("A push client as a service", .timeLimit(.minutes(1)))
struct PushClientServiceTests {
    private static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    /// Says when it was shut down.
    private final class EndingBackend: PushBackend {
        let kind: BackendKind = "ending"
        let audience = BackendAudience(services: [.iOSAPNs])
        let log: EventLog

        init(_ log: EventLog) { self.log = log }

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {}
        func shutdown(grace: Duration) async { log.add("backend ended") }
    }

    private final class EventLog: Sendable {
        private let lines = Mutex<[String]>([])
        var all: [String] { lines.withLock { $0 } }
        func add(_ line: String) { lines.withLock { $0.append(line) } }
    }

    /// A part of the program that sends, until the graceful shutdown.
    private struct Sender: Service {
        let log: EventLog

        func run() async throws {
            try await gracefulShutdown()
            log.add("sender ended")
        }
    }

    @Test("It is open until the graceful shutdown, and ends after whatever is named behind it")
    func order() async throws {
        let log = EventLog()
        let client = PushClient(logger: Self.quiet)
        _ = try client.add(as: "a") { _ in EndingBackend(log) }
        let started = AsyncStream.makeStream(of: Void.self)
        let services = ServiceGroup(services: [client, Sender(log: log)], logger: Self.quiet)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await services.run() }
            tasks.addTask {
                for await _ in started.stream { break }
                await services.triggerGracefulShutdown()
            }
            _ = try client.add(as: "b") { _ in EndingBackend(log) }  // It is open.
            #expect(log.all.isEmpty)
            started.continuation.yield()
            try await tasks.waitForAll()
        }
        #expect(log.all == ["sender ended", "backend ended", "backend ended"])
        #expect(throws: HTTPPoolError.self) { try client.add(as: "late") { _ in EndingBackend(log) } }
    }

    @Test("A cancelled task ends it as well, without an error")
    func cancelled() async throws {
        let log = EventLog()
        let client = PushClient(logger: Self.quiet)
        _ = try client.add(as: "a") { _ in EndingBackend(log) }
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await client.run() }
            tasks.cancelAll()
            try await tasks.waitForAll()
        }
        #expect(log.all == ["backend ended"])
    }
}
