import NIOCore
import NIOPosix
import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparHTTP

/// Peers that write nonsense cost at most the certainty of the calls that they hold: never a crash, a hang, a lost
/// call, a call that is told of twice, somebody else's answer, or "not processed" for what the peer had read.
///
/// Every case follows from its number alone, which a failure names. `CHAPAR_FUZZ=20000` runs so many cases of each
/// protocol, `CHAPAR_FUZZ=1234...1234` just that one.
@Suite("Broken peers", .serialized, .timeLimit(.minutes(1)))
struct BrokenPeerTests {
    /// One identity for all servers: making one takes longer than a case.
    static let identity = Result { try TestAuthority.shared.identity() }

    /// How long a case may take; its calls have less than half of that.
    static let patience: Duration = .seconds(50)

    @Test("HTTP/2: every call is told of once and truly", arguments: Dice.cases(105, together: 15))
    func http2(seeds: ClosedRange<Int>) async {
        await run(seeds) { seed, progress in
            let kind = HTTP2Nonsense.allCases[seed % HTTP2Nonsense.allCases.count]
            return try await Self.http2(seed, kind, progress).map { "\(kind): \($0)" }
        }
    }

    @Test("HTTP/1.1: every call is told of once and truly", arguments: Dice.cases(30, together: 10))
    func http1(seeds: ClosedRange<Int>) async {
        await run(seeds) { seed, progress in
            let kind = HTTP1Nonsense.allCases[seed % HTTP1Nonsense.allCases.count]
            return try await Self.http1(seed, kind, progress).map { "\(kind): \($0)" }
        }
    }

    /// Where a case is, for the report about one that hangs.
    final class Progress: Sendable {
        private let step = Mutex("start")
        private let end = Mutex<[String]?>(nil)

        var text: String { step.withLock { $0 } }
        var complaints: [String]? { end.withLock { $0 } }
        func reach(_ text: String) { step.withLock { $0 = text } }
        func finish(_ complaints: [String]) { end.withLock { $0 = complaints } }
    }

    private func run(
        _ seeds: ClosedRange<Int>,
        _ body: @escaping @Sendable (Int, Progress) async throws -> [String]
    ) async {
        await withTaskGroup(of: (Int, [String]).self) { group in
            for seed in seeds {
                group.addTask {
                    let progress = Progress()
                    // Unstructured, so that a case that hangs can be named and left behind.
                    Task {
                        do {
                            progress.finish(try await body(seed, progress))
                        } catch {
                            progress.finish(["\(progress.text): \(error)"])
                        }
                    }
                    try? await eventually("case \(seed) ends", within: Self.patience) { progress.complaints != nil }
                    return (seed, progress.complaints ?? ["hangs after: \(progress.text)"])
                }
            }
            for await (seed, complaints) in group {
                for complaint in complaints { Issue.record("case \(seed), \(complaint)") }
            }
        }
    }

    private static func http2(_ seed: Int, _ kind: HTTP2Nonsense, _ progress: Progress) async throws -> [String] {
        let peer = BrokenHTTP2Peer(kind, seed: seed)
        var rules = ScriptedServer.Rules()
        rules.settings = nil
        rules.identity = try identity.get()
        rules.script = { peer.handle($0, $1) }
        let server = try await ScriptedServer.start(rules)
        let pool = try makePool(port: server.port) { configure(&$0, seed) }
        let complaints = try await judge(
            pool,
            kind,
            progress,
            failures: { try await server.loop.submit { peer.failures }.get() },
            attempts: { try await server.loop.submit { peer.attempts }.get() },
            mend: { try await server.loop.submit { peer.mend(server.connections) }.get() },
            open: { try await server.loop.submit { server.connections.filter { !$0.isClosed }.count }.get() }
        )
        try await server.stop()
        return complaints
    }

    private static func http1(_ seed: Int, _ kind: HTTP1Nonsense, _ progress: Progress) async throws -> [String] {
        let peer = BrokenHTTP1Peer(kind, seed: seed)
        let server = try await peer.start()
        guard let endpoint = HTTPEndpoint(url: server.url) else { return ["no endpoint"] }
        var configuration = HTTPPoolConfiguration(endpoint: endpoint, version: .http1)
        configuration.extraTrustPEM = try TestAuthority.shared.certificatePEM
        configure(&configuration, seed)
        let pool = try HTTP1Pool(
            configuration,
            loop: MultiThreadedEventLoopGroup.singleton.next(),
            logger: quiet
        )
        let complaints = try await judge(
            pool,
            kind,
            progress,
            failures: { peer.failures },
            attempts: { peer.attempts },
            mend: { peer.mend() },
            open: { peer.open }
        )
        try await server.stop()
        return complaints
    }

    private static func configure(_ configuration: inout HTTPPoolConfiguration, _ seed: Int) {
        configuration.requestTimeout = .seconds(20)
        configuration.maximumConnections = 1 + seed % 4
        configuration.reconnectBackoff = .milliseconds(1) ... .milliseconds(4)
    }

    /// Sends a batch, another one amid the trouble, and more when the peer is well again; says what went wrong.
    private static func judge(
        _ pool: any HTTPPool,
        _ kind: some Nonsense,
        _ progress: Progress,
        failures: @Sendable () async throws -> Int,
        attempts: () async throws -> Attempts,
        mend: () async throws -> Void,
        open: () async throws -> Int
    ) async throws -> [String] {
        let (first, second) = (Replies(), Replies())
        progress.reach("two batches on a broken peer")
        async let early: Void = pool.send(Attempts.calls(0..<20, deadline: kind.deadline)) { first.take($0) }
        try await eventually("the peer is broken") { try await failures() > 0 || first.all.count == 20 }
        await pool.send(Attempts.calls(20..<25, deadline: kind.deadline)) { second.take($0) }
        await early

        progress.reach("the peer is well again")
        try await mend()
        var next = 25
        var fresh = Replies()
        var complaints: [String] = []
        try await eventually("calls succeed") {
            fresh = await pool.replies(to: Attempts.calls(next..<next + 3))
            complaints += try await attempts().complaints(about: fresh, first: next, count: 3, arrives: false)
            next += 3
            return fresh.failures.isEmpty
        }

        progress.reach("the end of the pool")
        await pool.shutdown(grace: .zero)
        progress.reach("the pool's shutdown")
        try await eventually("nothing is left in the pool") {
            let status = pool.status
            return status.connections + status.openStreams + status.waiting == 0
        }
        progress.reach("the pool's status")
        try await eventually("all is closed") { try await open() == 0 }

        let known = try await attempts()
        complaints += known.complaints(about: first, first: 0, count: 20, arrives: kind.arrives)
        complaints += known.complaints(about: second, first: 20, count: 5, arrives: kind.arrives)
        if kind.isLegal, let failure = (first.failures + second.failures).first {
            complaints.append("failed although the peer kept to the protocol: \(failure)")
        }
        return complaints
    }
}
