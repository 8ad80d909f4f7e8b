package import ChaparCore

extension AudienceRule {
    /// Returns the sources of an index whose union has every device for which the rule may hold, and about how many
    /// devices they have; nil when no index contains them all.
    ///
    /// Of the rules of an `all` it takes the one with the fewest devices. Leaves without an index are checked on each
    /// device that the index returns.
    ///
    /// - Parameters:
    ///   - app: The app of the audience.
    ///   - count: The number of devices with a label (``AudienceLabel``).
    /// - Returns: The sources, or nil.
    package func sources(
        in app: AppName,
        count: (String) -> Int64
    ) -> (sources: [AudiencePlan.Source], candidates: Int64)? {
        sources(in: app, count: count, negated: false)
    }

    private typealias Found = (sources: [AudiencePlan.Source], candidates: Int64)

    private func sources(in app: AppName, count: (String) -> Int64, negated: Bool) -> Found? {
        switch self {
        case .not(let rule): return rule.sources(in: app, count: count, negated: !negated)
        case .all(let rules):
            let parts = rules.map { $0.sources(in: app, count: count, negated: negated) }
            return negated ? Self.union(parts) : Self.cheapest(parts)
        case .any(let rules):
            let parts = rules.map { $0.sources(in: app, count: count, negated: negated) }
            return negated ? Self.cheapest(parts) : Self.union(parts)
        case .tag(let name) where !negated: return ([.tag(name)], count(AudienceLabel.tag(name)))
        case .userTag(let name) where !negated:
            let label = AudienceLabel.userTag(name)
            return ([.label(label)], count(label))
        case .segment(let name) where !negated:
            let labels = [AudienceLabel.devices(name, in: app), AudienceLabel.users(name, in: app)]
            return (labels.map { .label($0) }, labels.reduce(0) { $0.adding(clamping: count($1)) })
        default: return nil
        }
    }

    private static func cheapest(_ parts: [Found?]) -> Found? {
        parts.compactMap { $0 }.min { $0.candidates < $1.candidates }
    }

    private static func union(_ parts: [Found?]) -> Found? {
        var seen: Set<ExactText> = []
        var sum: Found = ([], 0)
        for part in parts {
            guard let part else { return nil }
            sum.sources += part.sources.filter { seen.insert(ExactText($0.label)).inserted }
            let (total, overflows) = sum.candidates.addingReportingOverflow(part.candidates)
            sum.candidates = overflows ? .max : total
        }
        return sum
    }

    /// The labels whose counts ``sources(in:count:)`` asks for, each once.
    package func countedLabels(in app: AppName) -> [String] {
        var labels: Set<String> = []
        collectLabels(in: app, into: &labels)
        return labels.sorted()
    }

    private func collectLabels(in app: AppName, into labels: inout Set<String>) {
        switch self {
        case .all(let rules), .any(let rules): for rule in rules { rule.collectLabels(in: app, into: &labels) }
        case .not(let rule): rule.collectLabels(in: app, into: &labels)
        case .tag(let name): labels.insert(AudienceLabel.tag(name))
        case .userTag(let name): labels.insert(AudienceLabel.userTag(name))
        case .segment(let name):
            labels.formUnion([AudienceLabel.devices(name, in: app), AudienceLabel.users(name, in: app)])
        default: break
        }
    }
}

extension AudiencePlan.Source {
    /// The label under which its devices are counted.
    package var label: String {
        switch self {
        case .tag(let tag): AudienceLabel.tag(tag)
        case .label(let label): label
        }
    }
}

extension AudiencePlan {
    /// Chooses the sources of an audience by the number of devices with each label; an index that would give more
    /// devices than the registry has numbers is not used.
    package init(_ audience: Audience, counts: [String: Int64]) {
        let found = audience.rule.sources(in: audience.app) { max(0, counts[$0] ?? 0) }
        self.init(audience, sources: found?.sources, candidates: found?.candidates)
    }

    /// Evaluates candidates, which a store has read in the order of their numbers.
    ///
    /// - Parameters:
    ///   - candidates: The candidates that exist, and the number of entries that were read.
    ///   - limit: The number of entries that the store asked for. If it read fewer, the range is over.
    ///   - end: The end of the range.
    /// - Returns: The window.
    package func evaluate(_ candidates: AudienceCandidates, limit: Int, through end: Int64) -> AudienceWindow {
        let isOver = candidates.read < limit
        var window = AudienceWindow(
            cursor: isOver ? end : candidates.last,
            isOver: isOver || candidates.last >= end,
            rowsRead: candidates.read
        )
        for subject in candidates.subjects {
            if subject.device.app == audience.app { window.evaluated += 1 }
            if let wave, !wave.contains(Self.bucket(of: subject.device.id)) { continue }
            switch audience.verdict(subject) {
            case .unmatched: break
            case .skipped(let cause): window.skipped[cause, default: 0] += 1
            case .reached: window.devices.append(subject)
            }
        }
        return window
    }
}

/// The candidates of a window, as a store has read them.
package struct AudienceCandidates: Sendable {
    /// The candidates that exist.
    package var subjects: [AudienceSubject] = []
    /// The number of entries that were read, those of devices that are gone included.
    package var read = 0
    /// The number of the last entry.
    package var last: Int64 = 0

    /// Makes an empty value.
    package init() {}
}
