public import PushCore

/// What every `NotificationStore` must do, as checks that any test framework can run.
///
/// ```swift
/// @Test("The store keeps the contract", arguments: StoreConformance.cases)
/// func contract(_ check: StoreConformanceCase) async throws {
///     let folder = …
///     try await check.run { time in try MyStore(folder, time: time) }
/// }
/// ```
public struct StoreConformance {
    /// Every check.
    ///
    /// They are independent of each other.
    public static let cases: [StoreConformanceCase] =
        acceptance + idempotency + claims + resolutions + leases + collapsing + cancelling + expiry + events + keeping
        + plans + walks + receipts
}

/// One promise of the contract.
public struct StoreConformanceCase: Sendable, CustomStringConvertible {
    /// What is promised, as a sentence.
    public let name: String
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
    /// - Throws: ``ConformanceFailure`` when the promise is broken, else what the store threw.
    public func run(open: @escaping @Sendable (ManualTime) async throws -> any NotificationStore) async throws {
        try await check(StoreFixture(open: open))
    }

    /// The promise.
    public var description: String { name }
}

/// What a check works with: a clock of its own and the way to open the store on it.
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

    /// Moves the clock, a little at a time, until something that waits on it is done.
    func advance<Value: Sendable>(
        by step: Duration = .milliseconds(50),
        until task: Task<Value, any Error>,
        line: Int = #line
    ) async throws -> Value {
        let isDone = Flag()
        let watcher = Task {
            defer { isDone.set() }
            return try await task.value
        }
        for _ in 0..<2_000 where !isDone.isSet {
            time.advance(by: step)
            try await Task.sleep(for: .milliseconds(1))
        }
        guard isDone.isSet else {
            task.cancel()
            throw ConformanceFailure("line \(line): still waiting after 100 s of the store's time")
        }
        return try await watcher.value
    }
}

/// Fails unless two values are equal.
func expect<Value: Equatable>(
    _ found: Value,
    is wanted: Value,
    _ what: @autoclosure () -> String,
    file: StaticString = #fileID,
    line: Int = #line
) throws {
    try expect(found == wanted, "\(file):\(line): \(what()): expected \(wanted), found \(found)")
}
