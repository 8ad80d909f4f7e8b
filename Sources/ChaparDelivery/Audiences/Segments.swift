package import Foundation
package import ChaparCore
package import ChaparQueue

/// The stored segments of all apps, and the resolution of rules that name them.
///
/// A definition is a small value of the store's state; the members of a list are labels (`AudienceLabel`).
package struct Segments: Sendable {
    /// The content of a segment, which keeps its kind until it is deleted.
    package enum Definition: Sendable, Hashable {
        /// The devices for which a rule holds.
        case rule(AudienceRule)
        /// Devices that callers added.
        case devices
        /// The devices of users that callers added.
        case users

        /// The name of the kind.
        package var kind: String {
            switch self {
            case .rule: "rule"
            case .devices: "devices"
            case .users: "users"
            }
        }
    }

    /// A stored segment.
    package struct Segment: Sendable, Hashable {
        /// Its name within the app.
        package var name: String
        /// Its content.
        package var definition: Definition
        /// The time of the last change of the definition.
        package var updatedAt: Date

        /// Makes a segment.
        package init(_ name: String, _ definition: Definition, updatedAt: Date) {
            self.name = name
            self.definition = definition
            self.updatedAt = updatedAt
        }
    }

    /// The most segments of an app.
    package static let maximum = 10_000
    /// The most leaves of a rule with the rules of its segments in the place of their names.
    package static let maximumResolvedLeaves = 1_000
    private static let prefix = "segments/"

    private let store: any StateStore

    /// Makes the segments of a store.
    package init(_ store: any StateStore) { self.store = store }

    /// Returns the prefix of the names in the store's state of an app's segments.
    package static func prefix(of app: AppName) -> String { "\(prefix)\(app)/" }

    /// Returns a segment; nil when there is none of this name.
    package func segment(_ name: String, in app: AppName) async throws(StoreError) -> Segment? {
        guard let bytes = try await store.loadState(Self.prefix(of: app) + name) else { return nil }
        guard let json = try? JSONValue(parsing: bytes), let at = json["updated_at"]?.integerValue,
            let definition = Self.definition(json)
        else { throw .damaged("the segment \(name) of the app \(app) is not in the form that this program writes") }
        return Segment(name, definition, updatedAt: Date(millisecondsSince1970: at))
    }

    private static func definition(_ json: JSONValue) -> Definition? {
        switch json["kind"]?.stringValue {
        case "devices": .devices
        case "users": .users
        case "rule": json["rule"].flatMap { AudienceRule(json: $0) }.map { .rule($0) }
        default: nil
        }
    }

    /// Stores a definition.
    package func save(_ segment: Segment, in app: AppName) async throws(StoreError) {
        var json: JSONObject = ["kind": .string(segment.definition.kind)]
        json["updated_at"] = .integer(segment.updatedAt.millisecondsSince1970)
        if case .rule(let rule) = segment.definition { json["rule"] = rule.json }
        try await store.saveState(Self.prefix(of: app) + segment.name, JSONValue.object(json).bytes)
    }

    /// Removes a definition.
    package func remove(_ name: String, in app: AppName) async throws(StoreError) {
        try await store.saveState(Self.prefix(of: app) + name, nil)
    }

    // MARK: Rules

    /// Reads a rule and puts the rules of segments in the place of their names.
    ///
    /// Segments with lists stay leaves. Every mistake is returned with its pointer: those of the rule, unknown
    /// segments, cycles, and segments that are nested too deep.
    ///
    /// - Parameters:
    ///   - value: The rule as JSON.
    ///   - pointer: The pointer to it.
    ///   - app: The app of the segments.
    ///   - name: The segment that is being defined, which the rule must not lead to; nil for another rule.
    /// - Returns: The rule as it was read, the resolved one, and the mistakes; without mistakes both rules are there.
    /// - Throws: The store's failure.
    package func resolve(
        _ value: JSONValue,
        at pointer: String,
        in app: AppName,
        defining name: String? = nil
    ) async throws(StoreError) -> (rule: AudienceRule?, resolved: AudienceRule?, mistakes: [AudienceMistake]) {
        let reading = AudienceRule.reading(value, at: pointer)
        guard let rule = reading.rule else { return (nil, nil, reading.mistakes) }
        var resolution = Resolution()
        // A segment is one level itself wherever it is used.
        let depth = name == nil ? 1 : 2
        for (segment, place) in reading.segments {
            try await resolve(segment, place, app, path: name.map { [$0] } ?? [], depth: depth, &resolution)
        }
        guard resolution.mistakes.isEmpty else { return (rule, nil, resolution.mistakes) }
        let resolved = rule.replacing(resolution.rules)
        guard resolved.leafCount <= Self.maximumResolvedLeaves else {
            let detail =
                "With its segments the rule has \(resolved.leafCount) leaves; at most \(Self.maximumResolvedLeaves). "
                + "Load one of the segments as a list."
            return (rule, nil, [AudienceMistake(pointer, "too_many_leaves", detail)])
        }
        return (rule, resolved.canonical, [])
    }

    private struct Resolution {
        /// The resolved rules by the segments' names.
        var rules: [String: AudienceRule] = [:]
        var mistakes: [AudienceMistake] = []
    }

    private func resolve(
        _ name: String,
        _ pointer: String,
        _ app: AppName,
        path: [String],
        depth: Int,
        _ resolution: inout Resolution
    ) async throws(StoreError) {
        guard !path.contains(name) else {
            let circle = (path + [name]).joined(separator: " → ")
            resolution.mistakes.append(
                AudienceMistake(
                    pointer,
                    "segment_cycle",
                    "The segments name each other: \(circle). Leave one name out."
                )
            )
            return
        }
        guard depth <= AudienceRule.maximumNesting else {
            let detail =
                "Segments may be nested \(AudienceRule.maximumNesting) deep. Write the rule of \(name) in its place."
            resolution.mistakes.append(AudienceMistake(pointer, "segments_too_deep", detail))
            return
        }
        guard let segment = try await segment(name, in: app) else {
            let detail = "The app has no segment \(name). Create it with PUT /v1/segments/\(name)."
            resolution.mistakes.append(AudienceMistake(pointer, "unknown_segment", detail))
            return
        }
        // Walked again on each path, since depth and cycles depend on it; a rule is kept once.
        guard case .rule(let rule) = segment.definition else { return }
        let before = resolution.mistakes.count
        for inner in rule.segments {
            try await resolve(inner, pointer, app, path: path + [name], depth: depth + 1, &resolution)
            if resolution.mistakes.count != before { return }
        }
        let resolved = rule.replacing(resolution.rules)
        guard resolved.leafCount <= Self.maximumResolvedLeaves else {
            let detail = "The segment \(name) has more than \(Self.maximumResolvedLeaves) leaves with its own segments."
            resolution.mistakes.append(AudienceMistake(pointer, "too_many_leaves", detail))
            return
        }
        resolution.rules[name] = resolved
    }
}

extension AudienceRule {
    /// Returns the rule with other rules in the place of segments' names; names without one stay.
    fileprivate func replacing(_ rules: [String: AudienceRule]) -> AudienceRule {
        switch self {
        case .all(let parts): .all(parts.map { $0.replacing(rules) })
        case .any(let parts): .any(parts.map { $0.replacing(rules) })
        case .not(let part): .not(part.replacing(rules))
        case .segment(let name): rules[name] ?? self
        default: self
        }
    }
}
