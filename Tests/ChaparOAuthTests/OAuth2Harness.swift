import Foundation
import Logging
import ChaparCore
import ChaparOAuth
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Synchronization

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

/// A token server and a strategy that refreshes at it, over TLS on the loopback interface.
struct OAuth2Harness: Sendable {
    let server: OAuth2Simulator
    let store: MemoryCredentialStore
    let hooks: RecordingHooks
    let strategy: OAuth2RefreshToken
    let transport: NIOTransport
    let pool: any HTTPPool
    let endpoint: HTTPEndpoint
    let events: Recorder<OAuth2Event>
    let clock: MovableClock

    static func run(
        _ rules: OAuth2Simulator.Rules = OAuth2Simulator.Rules(),
        startsEmpty: Bool = false,
        adjust: (inout OAuth2Settings) -> Void = { _ in },
        wrap: (MemoryCredentialStore) -> any CredentialStore = { $0 },
        hooks: RecordingHooks = RecordingHooks(),
        _ body: (OAuth2Harness) async throws -> Void
    ) async throws {
        let clock = MovableClock()
        try await OAuth2Simulator.run(rules) { server in
            guard let base = HTTPBaseURL(url: server.baseURL) else { throw CancellationError() }
            var settings = OAuth2Settings(base: base, clientID: OAuth2Simulator.clientID)
            settings.trustPEM = server.certificatePEM
            settings.encoding = rules.encoding
            settings.clientAuthentication = rules.clientAuthentication
            settings.clientSecret = Secret(rules.clientSecret)
            adjust(&settings)
            let transport = NIOTransport(logger: quiet)
            let store = MemoryCredentialStore(startsEmpty ? nil : server.issue(at: clock.now))
            let events = Recorder<OAuth2Event>()
            let strategy = try OAuth2RefreshToken(
                settings,
                store: wrap(store),
                hooks: hooks,
                http: transport,
                time: clock,
                now: { clock.instant },
                observe: { events.add($0) }
            )
            var configuration = HTTPPoolConfiguration(endpoint: base.endpoint, version: .http2)
            configuration.extraTrustPEM = server.certificatePEM
            configuration.requestTimeout = .seconds(20)
            let harness = OAuth2Harness(
                server: server,
                store: store,
                hooks: hooks,
                strategy: strategy,
                transport: transport,
                pool: try transport.pool(configuration),
                endpoint: base.endpoint,
                events: events,
                clock: clock
            )
            do {
                try await body(harness)
                await strategy.shutdown()
                await transport.shutdown(grace: .milliseconds(100))
            } catch {
                await strategy.shutdown()
                await transport.shutdown(grace: .milliseconds(100))
                throw error
            }
        }
    }

    /// Asks the API; the status, or the error's code.
    func ask(_ path: String = "/v1/push", headers: [HTTPHeader] = []) async -> String {
        let call = HTTPCall(HTTPCallTemplate(method: "POST", headers: headers), path: path, body: Array("hello".utf8))
        do {
            return String(try await strategy.send(call, to: endpoint, through: pool).status)
        } catch let error as OAuth2Error {
            return error.code
        } catch {
            return "\(error)"
        }
    }

    /// Asks the API through a strategy; the status, or the error's code.
    func status(_ strategy: OAuth2RefreshToken) async -> String {
        let call = HTTPCall(HTTPCallTemplate(method: "POST"), path: "/v1/push", body: [])
        do {
            return String(try await strategy.send(call, to: endpoint, through: pool).status)
        } catch {
            return (error as? OAuth2Error)?.code ?? "\(error)"
        }
    }

    /// Asks the API many times at once with one credential and no second attempt; how often each status came.
    func statuses(of count: Int, _ credential: AuthCredential) async throws -> [Int: Int] {
        let headers = credential.headers.map { HTTPHeader($0.name, $0.value.reveal()) }
        let template = HTTPCallTemplate(method: "POST", headers: headers)
        return try await withThrowingTaskGroup(of: Int.self) { tasks in
            for number in 0..<count {
                tasks.addTask { try await pool.send(HTTPCall(template, path: "/v1/push/\(number)", body: [])).status }
            }
            return try await tasks.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }
    }

    /// A strategy of its own over another view of the same credential, as a second process has it.
    func secondProcess(_ store: any CredentialStore) throws -> OAuth2RefreshToken {
        guard let base = HTTPBaseURL(url: server.baseURL) else { throw CancellationError() }
        var settings = OAuth2Settings(base: base, clientID: OAuth2Simulator.clientID)
        settings.trustPEM = server.certificatePEM
        return try OAuth2RefreshToken(
            settings,
            store: store,
            http: transport,
            time: clock,
            now: { [clock] in clock.instant }
        )
    }

    /// Asks the API many times at once; how often each result came.
    func askAtOnce(_ count: Int) async -> [String: Int] {
        await withTaskGroup(of: String.self) { tasks in
            for number in 0..<count { tasks.addTask { await ask("/v1/push/\(number)") } }
            return await tasks.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }
    }
}

/// A wall clock and a monotonic clock that stand still and jump together, so that a slow machine changes nothing.
final class MovableClock: TimeSource {
    private let offset = Mutex(Duration.zero)
    private let start = (wall: Date(), instant: ContinuousClock.now)

    var now: Date { start.wall.addingTimeInterval(offset.withLock { $0 }.inSeconds) }
    var instant: ContinuousClock.Instant { start.instant + offset.withLock { $0 } }

    func advance(by span: Duration) { offset.withLock { $0 += span } }
    func sleep(for duration: Duration) async throws { try await SystemTime().sleep(for: duration) }
}

/// Hooks that write down what they are told.
final class RecordingHooks: OAuth2Hooks {
    let notices = Recorder<String>()
    /// Run when a refresh has succeeded.
    let afterRefresh: Mutex<(@Sendable () async -> Void)?> = Mutex(nil)

    func didRefresh(_ credential: OAuthCredential) async {
        notices.add("refreshed")
        if let body = afterRefresh.withLock({ $0 }) { await body() }
    }
    func didFailToRefresh(_ error: OAuth2Error, answer: HTTPAnswer?) async {
        notices.add("failed \(error.code) \(answer?.status ?? 0)")
    }
    func shouldDropCredential(_ error: OAuth2Error) async { notices.add("log out") }
}

/// A store on a disk that may be full, and that another process may write to just before.
final class FullDisk: Sendable {
    let isFull = Mutex(false)
    /// Run once, when the next credential is about to be saved.
    let beforeSave: Mutex<(@Sendable () -> Void)?> = Mutex(nil)

    func around(_ store: MemoryCredentialStore) -> any CredentialStore { Store(disk: self, inner: store) }

    private struct Store: CredentialStore {
        let disk: FullDisk
        let inner: MemoryCredentialStore

        func load() async throws(OAuth2Error) -> StoredCredential? { try await inner.load() }

        func save(
            _ credential: OAuthCredential,
            expecting expected: CredentialRevision?
        ) async throws(OAuth2Error) -> CredentialRevision? {
            disk.beforeSave.withLock { $0.take() }?()
            if disk.isFull.withLock({ $0 }) { throw .storeFailed("the disk is full") }
            return try await inner.save(credential, expecting: expected)
        }

        func remove(expecting expected: CredentialRevision?) async throws(OAuth2Error) {
            try await inner.remove(expecting: expected)
        }
    }
}
