import Logging
import NIOCore
import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparHTTP

/// The promises of a client about the end of everything that was made with it.
@Suite("Push client", .timeLimit(.minutes(1)))
struct PushClientTests {
    private struct BodyFailed: Error {}

    /// How a body ends.
    enum Ending: CaseIterable, Sendable { case returns, throwsError, isCancelled }

    @Test("Its backends end before its connections, however the body ends", arguments: Ending.allCases)
    func order(_ ending: Ending) async throws {
        let server = try await HTTP1Server.start()
        let seen = Mutex<ProbeBackend?>(nil)
        let run = Task {
            try await PushClient.run(logger: quiet) { client in
                let probe = try client.add(as: "probe") { try ProbeBackend($0, url: server.url) }
                #expect(await probe.send(PushNotification(title: "1"), to: anyone).isAccepted)
                seen.withLock { $0 = probe }
                switch ending {
                case .returns: return
                case .throwsError: throw BodyFailed()
                case .isCancelled: try await ManualTime().sleep(for: .seconds(600))
                }
            }
        }
        try await eventually("the body ran") { seen.withLock { $0 } != nil }
        if ending == .isCancelled { run.cancel() }
        let result = await run.result
        switch ending {
        case .returns: #expect(throws: Never.self) { try result.get() }
        case .throwsError: #expect(throws: BodyFailed.self) { try result.get() }
        case .isCancelled: #expect(throws: CancellationError.self) { try result.get() }
        }
        let probe = try #require(seen.withLock { $0 })
        #expect(probe.ends == [.accepted], "it could still send its last message while it ended")
        #expect(probe.pool.status.connections == 0)
        try await server.stop()
    }

    @Test("A backend that is used after the end refuses every recipient and sends nothing")
    func late() async throws {
        let server = try await HTTP1Server.start()
        let probe = try await PushClient.run(logger: quiet) { client in
            try client.add(as: "probe") { try ProbeBackend($0, url: server.url) }
        }
        let sent = server.requests
        let outcomes = await probe.send(PushNotification(title: "1"), to: [anyone, anyone])
        #expect(outcomes.count == 2 && outcomes.allSatisfy { !$0.isAccepted })
        #expect(server.requests == sent)
        try await server.stop()
    }

    @Test("After the end no backend and no connection is made")
    func nothingNew() async throws {
        let client = PushClient(logger: quiet)
        await client.shutdown()
        let isAsked = Mutex(false)
        #expect(throws: HTTPPoolError.self) {
            try client.add(as: "late") { context in
                isAsked.withLock { $0 = true }
                return try ProbeBackend(context, url: "http://127.0.0.1:9")
            }
        }
        #expect(!isAsked.withLock { $0 })
        #expect(throws: HTTPPoolError.self) {
            try client.http.pool(HTTPPoolConfiguration(endpoint: HTTPEndpoint(host: "localhost"), version: .http2))
        }
    }

    @Test("A backend whose end never comes is left behind and loses its connections")
    func stuck() async throws {
        let client = PushClient(logger: quiet)
        let probe = try client.add(as: "stuck") { try ProbeBackend($0, url: "http://127.0.0.1:9", isStuck: true) }
        await client.shutdown(grace: .zero)
        #expect(probe.ends.isEmpty, "it has not ended")
        #expect(await probe.pool.failure(of: HTTPCall(.get, path: "/"))?.cause == .cancelled)
        probe.release()
    }

    @Test("Everyone who ends it waits for the one end")
    func twice() async throws {
        // The end takes a while, so that who does not wait for it comes too early.
        let server = try await HTTP1Server.start { _, context in
            let channel = context.channel
            channel.eventLoop.scheduleTask(in: .milliseconds(300)) { channel.close(promise: nil) }
        }
        let client = PushClient(logger: quiet)
        let probe = try client.add(as: "probe") { try ProbeBackend($0, url: server.url) }
        await withTaskGroup(of: Int.self) { tasks in
            for _ in 0..<10 {
                tasks.addTask {
                    await client.shutdown(grace: .seconds(20))
                    return probe.ends.count
                }
            }
            for await count in tasks { #expect(count == 1) }
        }
        try await server.stop()
    }

    @Test("A name belongs to one backend, until that is removed, which ends it")
    func names() async throws {
        let server = try await HTTP1Server.start()
        let client = PushClient(logger: quiet)
        let probe = try client.add(as: "probe") { try ProbeBackend($0, url: server.url) }
        let isAsked = Mutex(false)
        #expect(throws: HTTPPoolError.self) {
            try client.add(as: "probe") { context in
                isAsked.withLock { $0 = true }
                return try ProbeBackend(context, url: server.url)
            }
        }
        #expect(!isAsked.withLock { $0 })
        await client.remove("another")
        #expect(probe.ends.isEmpty)
        await client.remove("probe")
        #expect(probe.ends == [.accepted])
        let next = try client.add(as: "probe") { try ProbeBackend($0, url: server.url) }
        await client.shutdown()
        #expect(probe.ends.count == 1 && next.ends == [.accepted])
        try await server.stop()
    }

    @Test("A backend's logger carries its name")
    func logger() throws {
        let client = PushClient(logger: Logger(label: "test") { label in StreamLogHandler.standardError(label: label) })
        let backend = try client.add(as: "ios") { context in
            #expect(context.name == "ios")
            #expect(context.logger[metadataKey: "backend"] == "ios")
            return try ProbeBackend(context, url: "http://127.0.0.1:9")
        }
        #expect(backend.ends.isEmpty)
    }
}

private let anyone = Recipient.token("1", service: .iOSAPNs)

/// Sends a request for each recipient, and one more when it is ended.
private final class ProbeBackend: PushBackend {
    enum End { case accepted, refused }

    let kind: BackendKind = "probe"
    let audience = BackendAudience(services: [.iOSAPNs])
    let pool: any HTTPPool
    private let isStuck: Bool
    private let log = Mutex<[End]>([])
    private let gate = Mutex<(isOpen: Bool, waiter: CheckedContinuation<Void, Never>?)>((false, nil))

    init(_ context: BackendContext, url: String, isStuck: Bool = false) throws {
        self.isStuck = isStuck
        let endpoint = try #require(HTTPEndpoint(url: url))
        pool = try context.http.pool(HTTPPoolConfiguration(endpoint: endpoint, version: .http1))
    }

    /// How the last message went at each end.
    var ends: [End] { log.withLock { $0 } }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        for (place, request) in requests.enumerated() {
            for number in request.recipients.indices {
                report([DeliveryReport(request: place, recipient: number, outcome: await ask())])
            }
        }
    }

    private func ask() async -> DeliveryOutcome {
        do throws(HTTPFailure) {
            return .accepted(Acceptance(status: try await pool.send(HTTPCall(.get, path: "/")).status))
        } catch {
            return .refused(Refusal(.platform, reason: error.cause.reason, advice: .retry(after: nil)))
        }
    }

    func shutdown(grace: Duration) async {
        if isStuck {
            await withCheckedContinuation { waiter in
                let isOpen = gate.withLock { state in
                    if !state.isOpen { state.waiter = waiter }
                    return state.isOpen
                }
                if isOpen { waiter.resume() }
            }
        } else {
            let isAccepted = await ask().isAccepted
            log.withLock { $0.append(isAccepted ? .accepted : .refused) }
        }
    }

    /// Lets a stuck end go.
    func release() {
        let waiter = gate.withLock { state in
            state.isOpen = true
            return state.waiter.take()
        }
        waiter?.resume()
    }
}
