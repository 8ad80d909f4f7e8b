package import ChaparCore

/// A query over the device registry: which devices belong to an audience.
///
/// A leaf is false for a device without the value, so `not` of it is true for that device. A rule is made by
/// ``reading(_:at:)``, which checks its bounds, and is kept as the JSON that ``json`` returns.
package indirect enum AudienceRule: Sendable, Hashable {
    /// The most leaves of a rule, those of the segments that it names not counted.
    package static let maximumLeaves = 100
    /// The most nodes from the rule to a leaf, both counted.
    package static let maximumDepth = 8
    /// The most rules under one `all` or `any`.
    package static let maximumAlternatives = 50
    /// The most segments that name one another: a rule names a first, that one a second, that one a third.
    package static let maximumNesting = 3

    /// Every rule holds; there is at least one.
    case all([AudienceRule])
    /// At least one of the rules holds; there is at least one.
    case any([AudienceRule])
    /// The rule does not hold.
    case not(AudienceRule)
    /// The device has the tag.
    case tag(String)
    /// The device's user has the tag.
    case userTag(String)
    /// The device runs the platform (``Device/effectivePlatform``).
    case platform(String)
    /// The device has a live token of the service, of the kind ``ChaparCore/TokenKind/device``.
    case service(String)
    /// The device's locale is this one, or begins with its subtags: `fa` holds for `fa-IR`.
    case locale(String)
    /// The device's time zone has this name.
    case zone(String)
    /// The version of the app.
    case version(VersionBounds)
    /// The app was last seen at most this many seconds before the audience's moment.
    case seenWithin(Int64)
    /// The device was registered at most this many seconds before the audience's moment.
    case registeredWithin(Int64)
    /// The device belongs to the stored segment of this name.
    case segment(String)
    /// Every device.
    case everyone

    /// The bounds of a version, compared by its parts as numbers: `4.10` is above `4.9`, and `4.2` equals `4.2.0`.
    package struct VersionBounds: Sendable, Hashable {
        /// The version is lower than this one.
        package var below: String?
        /// The version is this one or higher.
        package var atLeast: String?
        /// The version equals this one.
        package var equal: String?

        /// Makes bounds; at least one is to be set.
        package init(below: String? = nil, atLeast: String? = nil, equal: String? = nil) {
            self.below = below
            self.atLeast = atLeast
            self.equal = equal
        }

        /// Whether a version is within the bounds; false for a text that does not begin with a digit.
        package func holds(for version: String) -> Bool {
            guard let parts = Self.parts(version) else { return false }
            if let below, let bound = Self.parts(below), !Self.precedes(parts, bound) { return false }
            if let atLeast, let bound = Self.parts(atLeast), Self.precedes(parts, bound) { return false }
            if let equal, let bound = Self.parts(equal) {
                return !Self.precedes(parts, bound) && !Self.precedes(bound, parts)
            }
            return true
        }

        /// Returns the numbers of a version, up to the first part that does not begin with a digit; nil without any.
        ///
        /// A number above 64 bits counts as the highest.
        static func parts(_ version: String) -> [UInt64]? {
            var parts: [UInt64] = []
            for part in version.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false) {
                let digits = part.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
                guard !digits.isEmpty else { break }
                parts.append(UInt64(String(decoding: digits, as: UTF8.self)) ?? .max)
                if digits.count < part.count { break }
            }
            while parts.count > 1, parts.last == 0 { parts.removeLast() }
            return parts.isEmpty ? nil : parts
        }

        private static func precedes(_ one: [UInt64], _ other: [UInt64]) -> Bool {
            one.lexicographicallyPrecedes(other)
        }
    }

    /// The number of leaves.
    package var leafCount: Int {
        switch self {
        case .all(let rules), .any(let rules): rules.reduce(0) { $0 + $1.leafCount }
        case .not(let rule): rule.leafCount
        default: 1
        }
    }

    /// The names of the segments that it names, each once, in order.
    package var segments: [String] {
        var names: Set<String> = []
        collectSegments(into: &names)
        return names.sorted()
    }

    private func collectSegments(into names: inout Set<String>) {
        switch self {
        case .all(let rules), .any(let rules): for rule in rules { rule.collectSegments(into: &names) }
        case .not(let rule): rule.collectSegments(into: &names)
        case .segment(let name): names.insert(name)
        default: break
        }
    }

    /// Whether a device can match only if it has a tag, a user tag or a segment.
    ///
    /// Other rules may match every device and need the scope `broadcast`. So does `any` of a tag and a platform.
    package var isNarrow: Bool { isNarrow(negated: false) }

    private func isNarrow(negated: Bool) -> Bool {
        switch self {
        case .tag, .userTag, .segment: !negated
        case .all(let rules):
            negated
                ? rules.allSatisfy { $0.isNarrow(negated: true) } : rules.contains { $0.isNarrow(negated: false) }
        case .any(let rules):
            negated
                ? rules.contains { $0.isNarrow(negated: true) } : rules.allSatisfy { $0.isNarrow(negated: false) }
        case .not(let rule): rule.isNarrow(negated: !negated)
        default: false
        }
    }

    /// Whether the rule holds for a device; this is the definition that every store's queries follow.
    ///
    /// A leaf that names a segment holds if ``AudienceFacts/segments`` has the segment; ``Audience`` has replaced the
    /// leaves of segments that are rules.
    package func matches(_ facts: AudienceFacts) -> Bool {
        switch self {
        case .all(let rules): rules.allSatisfy { $0.matches(facts) }
        case .any(let rules): rules.contains { $0.matches(facts) }
        case .not(let rule): !rule.matches(facts)
        case .tag(let tag): facts.tags.contains { ExactText($0) == ExactText(tag) }
        case .userTag(let tag): facts.userTags.contains(ExactText(tag))
        case .platform(let name): facts.platform == name
        case .service(let name): facts.hasLiveToken(of: [name])
        case .locale(let prefix): facts.locale.map { Self.locale($0, beginsWith: prefix) } ?? false
        case .zone(let name): facts.zone == name
        case .version(let bounds): facts.version.map(bounds.holds(for:)) ?? false
        case .seenWithin(let seconds): facts.seen.map { facts.isWithin(seconds, $0) } ?? false
        case .registeredWithin(let seconds): facts.isWithin(seconds, facts.registered)
        case .segment(let name): facts.segments.contains(name)
        case .everyone: true
        }
    }

    /// Whether a locale is `prefix` or has its subtags first; letters compare without case, `_` is `-`.
    static func locale(_ locale: String, beginsWith prefix: String) -> Bool {
        func plain(_ text: String) -> [UInt8] {
            text.utf8.map { byte in
                switch byte {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte + 32
                case UInt8(ascii: "_"): UInt8(ascii: "-")
                default: byte
                }
            }
        }
        let (whole, start) = (plain(locale), plain(prefix))
        guard whole.starts(with: start) else { return false }
        return whole.count == start.count || whole[start.count] == UInt8(ascii: "-")
    }
}

/// The facts on which a rule is evaluated: those of a device, its user and its segments.
///
/// Each fact is computed when a rule needs it, since most rules need only one.
package struct AudienceFacts: Sendable {
    private let device: Device
    /// The tags of the device's user.
    package let userTags: Set<ExactText>
    /// The segments with lists of members that the device or its user belongs to.
    package let segments: Set<String>
    /// The moment of the evaluation, in milliseconds since 1970.
    package let moment: Int64

    /// Makes the facts of a device.
    package init(_ device: Device, userTags: Set<ExactText> = [], segments: Set<String> = [], moment: Int64) {
        self.device = device
        self.userTags = userTags
        self.segments = segments
        self.moment = moment
    }

    /// The device's tags.
    package var tags: [String] { device.tags }
    /// The platform, as ``Device/effectivePlatform``.
    package var platform: String? { device.effectivePlatform }
    /// The language tag.
    package var locale: String? { device.locale }
    /// The name of the time zone.
    package var zone: String? { device.timeZone }
    /// The version of the app.
    package var version: String? { device.appVersion }
    /// The time when the app was last seen, in milliseconds since 1970.
    package var seen: Int64? { device.lastSeen?.millisecondsSince1970 }
    /// The time of the first registration, in milliseconds since 1970.
    package var registered: Int64 { device.createdAt.millisecondsSince1970 }

    /// Returns whether the device has a live token of the kind ``ChaparCore/TokenKind/device`` for one of the services.
    package func hasLiveToken(of services: [String]) -> Bool {
        device.tokens.contains { token in
            token.kind == .device && token.isAlive && services.contains(token.token.service.rawValue)
        }
    }

    fileprivate func isWithin(_ seconds: Int64, _ time: Int64) -> Bool {
        let (span, overflows) = seconds.multipliedReportingOverflow(by: 1_000)
        if overflows { return true }
        let (start, underflows) = moment.subtractingReportingOverflow(span)
        return underflows || time >= start
    }
}
