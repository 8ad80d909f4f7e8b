import Foundation
import ChaparCore
public import ChaparQueue
public import ChaparTesting

/// The contract of every `OutboxStore`, as checks that any test framework can run.
///
/// Stores keep entries together with their devices, and both are checked here.
public struct OutboxStoreConformance {
    /// The store that a check uses.
    public typealias Store = any OutboxStore & DeviceStore

    /// All checks; they are independent of each other.
    public static let cases: [OutboxStoreConformanceCase] = lines + keeping + outbox
}

/// One promise of the contract.
///
/// ``OutboxStoreConformance`` lists them; the tests of a store run each with stores of their own. A case opens a store,
/// uses only the protocol, and closes it.
public struct OutboxStoreConformanceCase: Sendable, CustomStringConvertible {
    /// The promise, as a sentence.
    public let name: String
    /// Whether the check opens the store a second time, which a store in memory does not survive.
    public let needsDisk: Bool
    private let check: @Sendable (OutboxFixture) async throws -> Void

    init(
        _ name: String,
        needsDisk: Bool = false,
        _ check: @escaping @Sendable (OutboxFixture) async throws -> Void
    ) {
        self.name = name
        self.needsDisk = needsDisk
        self.check = check
    }

    /// Runs the check.
    ///
    /// - Parameters:
    ///   - open: Opens the store under test; the first call of a run must find it empty, a later one the same storage
    ///     again.
    ///   - close: Closes it.
    /// - Throws: `ConformanceFailure` with the promise, what was seen and the source; else what the store threw.
    public func run(
        open: @escaping @Sendable (ManualTime) async throws -> OutboxStoreConformance.Store,
        close: @escaping @Sendable (OutboxStoreConformance.Store) async -> Void = { _ in }
    ) async throws {
        let time = ManualTime()
        let fixture = OutboxFixture(
            time: time,
            store: try await open(time),
            open: { try await open(time) },
            close: close
        )
        try await promised(
            name,
            "OutboxStore",
            why: "A change that is lost or out of order leaves the platform with another device than the registry."
        ) { try await check(fixture) }
        await close(fixture.store)
    }

    /// The promise.
    public var description: String { name }
}

/// A store with its clock.
///
/// A case of the kit gets one, with shorthands for common calls. The clock stands still unless the case moves it.
struct OutboxFixture: Sendable {
    let time: ManualTime
    let store: OutboxStoreConformance.Store
    let open: @Sendable () async throws -> OutboxStoreConformance.Store
    let close: @Sendable (OutboxStoreConformance.Store) async -> Void

    /// Closes the store and opens it again; the caller closes the old one once more, which must be harmless.
    func reopened() async throws -> OutboxFixture {
        await close(store)
        return OutboxFixture(time: time, store: try await open(), open: open, close: close)
    }

    func operation(
        _ device: String,
        _ kind: OutboxEntry.Kind = .subscription,
        backend: String = "crm",
        user: String? = nil,
        body: JSONObject = JSONObject()
    ) -> OutboxEntry {
        OutboxEntry(
            backend: backend,
            device: device,
            user: user,
            kind: kind,
            body: body,
            at: time.now.toMillisecond
        )
    }

    /// Claims entries that are due now, or those that are due first within the wait.
    func claim(
        _ limit: Int = 100,
        backend: String = "crm",
        lease: Duration = .seconds(60),
        wait: Duration = .zero
    ) async throws -> [ClaimedEntry] {
        try await store.claimEntries(of: backend, limit: limit, lease: lease, wait: wait)
    }

    /// Claims due entries and returns their devices.
    func due(_ limit: Int = 100, backend: String = "crm") async throws -> [String] {
        try await claim(limit, backend: backend).map(\.operation.device)
    }
}

extension Date {
    /// The moment in the precision of stores.
    fileprivate var toMillisecond: Date { Date(millisecondsSince1970: millisecondsSince1970) }
}
