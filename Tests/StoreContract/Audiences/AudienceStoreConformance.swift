import Foundation
import ChaparCore
package import ChaparQueue
import ChaparTesting

/// The contract of every `AudienceStore`, as checks that any test framework can run.
///
/// Stores keep audiences together with their devices; each check needs an empty store.
package struct AudienceStoreConformance {
    /// The store that a check uses.
    package typealias Store = any AudienceStore & DeviceStore

    /// All checks; they are independent of each other.
    package static let cases: [AudienceStoreConformanceCase] = rules + labels + windows
}

/// One promise of the contract.
package struct AudienceStoreConformanceCase: Sendable, CustomStringConvertible {
    /// The promise, as a sentence.
    package let name: String
    private let check: @Sendable (AudienceStoreConformance.Store) async throws -> Void

    init(_ name: String, _ check: @escaping @Sendable (AudienceStoreConformance.Store) async throws -> Void) {
        self.name = name
        self.check = check
    }

    /// Runs the check on an empty store.
    package func run(_ store: AudienceStoreConformance.Store) async throws {
        try await promised(
            name,
            "AudienceStore",
            why: "An audience that misses a device, or has one too many, sends a message to the wrong people."
        ) { try await check(store) }
    }

    /// The promise.
    package var description: String { name }
}

/// The result of a walk over all windows.
struct AudienceWalk {
    var ids: [String] = []
    var skipped: [AudienceSkip: Int] = [:]
    var rowsRead = 0
    var windows = 0

    var matched: Int { ids.count + skipped.values.reduce(0, +) }
}

extension AudienceStore {
    /// Walks an audience in windows of `span` numbers, each in calls of `limit` candidates.
    func walk(_ audience: Audience, span: Int64 = 40, limit: Int = 1_000) async throws -> AudienceWalk {
        let plan = try await plan(audience)
        let end = try await lastDeviceNumber()
        var walk = AudienceWalk()
        var start: Int64 = 0
        while start < end {
            let bound = min(end, start + span)
            walk.windows += 1
            while start < bound {
                let window = try await window(plan, after: start, through: bound, limit: limit)
                try expect(window.cursor > start && window.cursor <= bound, "a window goes on, and not past its end")
                try expect(window.isOver == (window.cursor == bound), "it is over at its end")
                walk.ids += window.devices.map(\.device.id)
                walk.skipped.merge(window.skipped) { $0 + $1 }
                walk.rowsRead += window.rowsRead
                start = window.cursor
            }
        }
        return walk
    }

    /// Gives a user labels.
    func label(_ user: String, _ labels: String...) async throws {
        _ = try await relabel([LabelChange(.user(user), added: labels)])
    }

    /// Returns the counts of an app as a dictionary.
    func counts(_ app: AppName = .default) async throws -> [String: Int64] {
        let list = try await labelCounts(in: app, after: nil, limit: 1_000)
        return Dictionary(list.map { ($0.label, $0.devices) }) { first, _ in first }
    }
}

extension Audience {
    /// Makes an audience of the samples.
    static func sample(
        _ rule: AudienceRule,
        app: AppName = .default,
        exclude: AudienceRule? = nil,
        list: List? = nil
    ) -> Audience {
        Audience(
            app: app,
            rule: rule,
            exclude: exclude,
            list: list,
            services: [TokenService.iOSAPNs.rawValue, TokenService.androidFirebase.rawValue],
            moment: Date.second(100_000).millisecondsSince1970
        )
    }
}
