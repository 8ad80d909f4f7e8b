import ChaparCore
import ChaparComposition
public import ChaparQueue
public import ChaparTesting

/// The contract of every `NotificationStore`, as checks that any test framework can run.
///
/// ```swift
/// @Test("The store keeps the contract", arguments: StoreConformance.cases)
/// func contract(_ check: StoreConformanceCase) async throws {
///     let folder = …
///     try await check.run { time in try MyStore(folder, time: time) }
/// }
/// ```
public struct StoreConformance {
    /// All checks.
    ///
    /// They are independent of each other.
    public static let cases: [StoreConformanceCase] = [
        (acceptance, "NotificationStore.enqueue(_:)"), (idempotency, "IdempotencyEntry"),
        (claims, "NotificationStore.claim(backend:limit:normal:wait:)"),
        (resolutions, "NotificationStore.record(_:event:)"),
        (leases, "NotificationStore"), (turns, "NotificationStore.claim(backend:limit:normal:wait:)"),
        (clocks, "NotificationStore.time"), (moving, "NotificationStore.move(backend:to:)"),
        (collapsing, "NewNotification.collapseID"), (cancelling, "NotificationStore.cancel(_:event:)"),
        (expiry, "NotificationStore.claimExpired(limit:)"),
        (events, "NotificationStore.events(after:limit:wait:)"), (keeping, "NotificationStore, StateStore"),
        (transitions, "DeliveryState.transitions"), (plans, "DeliveryPlan"), (records, "NotificationRecord"),
        (walks, "NotificationStore"),
        (receipts, "NotificationStore.record(_:)"), (escalations, "ReportRules"), (numbers, "NotificationID.highest"),
        (waiting, "NotificationStore.settle(_:of:event:)"), (searches, "SearchStore"),
        (webhooks, "WebhookStore"), (campaigns, "CampaignStore"), (series, "SeriesStore"),
    ].flatMap { cases, source in cases.map { $0.told(by: source) } }
}

/// One promise of the contract.
public struct StoreConformanceCase: Sendable, CustomStringConvertible {
    /// The promise, as a sentence.
    public let name: String
    /// The source of the promise: the declaration whose documentation makes it.
    public private(set) var source = ""
    private let check: @Sendable (StoreFixture) async throws -> Void

    init(_ name: String, _ check: @escaping @Sendable (StoreFixture) async throws -> Void) {
        self.name = name
        self.check = check
    }

    /// Runs the check.
    ///
    /// - Parameter open: Opens the store under test. The first call of a run must find it empty; a later one, made
    ///   after
    ///   the store was closed, must open the same storage again.
    /// - Throws: `ConformanceFailure` with the promise, what was seen and the source; else what the store threw.
    public func run(open: @escaping @Sendable (ManualTime) async throws -> any NotificationStore) async throws {
        try await promised(
            name,
            source,
            why: "A gateway answers 202 on the word of its store: what it says is on disk must be there, once."
        ) { try await check(StoreFixture(open: open)) }
    }

    fileprivate func told(by source: String) -> Self {
        var told = self
        told.source = source
        return told
    }

    /// The promise.
    public var description: String { name }
}

/// The fixture of a check: a clock, and the way to open the store on it.
struct StoreFixture: Sendable {
    let time = ManualTime()
    private let opening: @Sendable (ManualTime) async throws -> any NotificationStore

    init(open: @escaping @Sendable (ManualTime) async throws -> any NotificationStore) { opening = open }

    func open() async throws -> any NotificationStore { try await opening(time) }

    /// Closes the store and opens it again.
    func reopen(_ store: any NotificationStore) async throws -> any NotificationStore {
        await store.close()
        return try await open()
    }
}

/// Throws unless two values are equal.
func expect<Value: Equatable>(
    _ found: Value,
    is wanted: Value,
    _ what: @autoclosure () -> String,
    file: StaticString = #fileID,
    line: Int = #line
) throws {
    try expect(found == wanted, "\(file):\(line): \(what()): expected \(wanted), found \(found)")
}
