import Foundation
import ChaparCore
public import ChaparQueue
import ChaparTesting

/// The contract of every `DeviceStore`, as checks that any test framework can run.
///
/// ```swift
/// @Test("The store keeps the contract", arguments: DeviceStoreConformance.cases)
/// func contract(_ check: DeviceStoreConformanceCase) async throws { try await check.run(MyStore(…)) }
/// ```
public struct DeviceStoreConformance {
    /// All checks.
    ///
    /// They are independent of each other; each needs an empty store.
    public static let cases: [DeviceStoreConformanceCase] = [
        (records, "DeviceStore.put(_:telling:)"), (ownership, "DeviceStore: a token is of one device"),
        (lists, "DeviceStore.list(_:after:limit:)"), (refusals, "DeviceStore.invalidate(_:outbox:)"),
        (guarding, "DeviceStore.quarantine(_:)"), (singleRefusals, "DeviceStore.record(_:)"),
        (kinds, "DeviceStore: TokenKind"),
        (comparison, "DeviceStore"),
    ].flatMap { cases, source in cases.map { $0.told(by: source) } }
}

/// One promise of the contract.
public struct DeviceStoreConformanceCase: Sendable, CustomStringConvertible {
    /// The promise, as a sentence.
    public let name: String
    /// The source of the promise: the declaration whose documentation makes it.
    public private(set) var source = ""
    private let check: @Sendable (any DeviceStore) async throws -> Void

    init(_ name: String, _ check: @escaping @Sendable (any DeviceStore) async throws -> Void) {
        self.name = name
        self.check = check
    }

    /// Runs the check on an empty store.
    ///
    /// - Throws: `ConformanceFailure` with the promise, what was seen and the source; else what the store threw.
    public func run(_ store: any DeviceStore) async throws {
        try await promised(
            name,
            source,
            why: "Who gets a message is what the registry says: a token in the wrong place reaches somebody else."
        ) { try await check(store) }
    }

    fileprivate func told(by source: String) -> Self {
        var told = self
        told.source = source
        return told
    }

    /// The promise.
    public var description: String { name }
}

extension Date {
    /// Returns a moment of the samples, by its seconds after their beginning.
    static func second(_ number: Double) -> Date { Date(timeIntervalSince1970: 1_800_000_000 + number) }
}

extension DeviceToken {
    /// Makes a token that is easy to read.
    static func sample(_ name: some CustomStringConvertible, _ service: TokenService = .iOSAPNs) -> DeviceToken {
        DeviceToken("token-\(name)", service: service)
    }
}

extension RegisteredToken {
    /// Makes a registration at a second of the samples.
    static func sample(
        _ name: some CustomStringConvertible,
        _ service: TokenService = .iOSAPNs,
        at second: Double = 0
    ) -> RegisteredToken {
        RegisteredToken(.sample(name, service), registeredAt: .second(second))
    }
}

extension Device {
    /// Makes a device as an app would register it.
    static func sample(
        _ id: String,
        user: String? = nil,
        tokens: [RegisteredToken]? = nil,
        tags: [String] = [],
        platform: String? = nil,
        at second: Double = 0
    ) -> Device {
        Device(
            id: id,
            user: user,
            platform: platform,
            tokens: tokens ?? [.sample(id, at: second)],
            tags: tags,
            createdAt: .second(second)
        )
    }
}

extension TokenRefusal {
    /// Makes a platform's refusal of a token; without `learned` it is learned of at once.
    static func sample(
        _ name: some CustomStringConvertible,
        _ service: TokenService = .iOSAPNs,
        kind: TokenKind = .device,
        asOf second: Double,
        learned: Double? = nil,
        backend: String = "ios",
        reason: String = "Unregistered",
        alternatives: [String] = []
    ) -> TokenRefusal {
        TokenRefusal(
            .sample(name, service),
            kind: kind,
            asOf: .second(second),
            at: .second(learned ?? second),
            backend: backend,
            reason: reason,
            isCertain: alternatives.isEmpty,
            alternatives: alternatives
        )
    }
}

extension DeviceStore {
    /// Puts one device and returns the result.
    @discardableResult
    func put(_ device: Device) async throws -> DevicePut {
        let results = try await put([device])
        try expect(results.count, is: 1, "results of one put")
        return results[0]
    }

    /// Returns the registration of a sample token on any device.
    func registration(_ name: String, _ service: TokenService = .iOSAPNs) async throws -> RegisteredToken? {
        try await device(having: .sample(name, service))?.token(of: service)
    }

    /// Returns the ids of all matching devices, read page by page.
    func ids(_ query: DeviceQuery = DeviceQuery(), by limit: Int = 2) async throws -> [String] {
        var ids: [String] = []
        var cursor: DeviceCursor?
        repeat {
            let page = try await list(query, after: cursor, limit: limit)
            try expect(page.devices.count <= limit, "a page holds at most \(limit)")
            ids += page.devices.map(\.id)
            cursor = page.next
        } while cursor != nil
        return ids
    }
}
