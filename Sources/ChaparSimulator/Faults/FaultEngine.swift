package import Foundation
package import ChaparCore

/// Keeps the fault rules with their counts and finds the one that applies.
///
/// Each simulated service has one, filled by tests and by the control API. It is asked at every point where a rule may
/// act; the first of several matching rules acts. It only returns steps: the host carries them out.
package struct FaultEngine: Sendable {
    /// The parts of a request or connection that a rule may match.
    package struct Subject: Sendable {
        package var listener: SandboxListener
        package var token: String?
        package var topic: String?
        package var path: String?
        package var connection: Int?

        package init(
            listener: SandboxListener,
            token: String? = nil,
            topic: String? = nil,
            path: String? = nil,
            connection: Int? = nil
        ) {
            self.listener = listener
            self.token = token
            self.topic = topic
            self.path = path
            self.connection = connection
        }
    }

    fileprivate struct Armed: Sendable {
        var rule: FaultRule
        var addedAt: Date
        var seen = 0
        var fired = 0
    }

    private var armed: [Armed] = []
    private var points: Set<FaultRule.Point> = []

    package init() {}

    /// The rules, in the order they are tried, with the number of times each has applied.
    package var rules: [(rule: FaultRule, fired: Int)] { armed.map { ($0.rule, $0.fired) } }

    package mutating func add(_ rule: FaultRule, at now: Date) {
        armed.append(Armed(rule: rule, addedAt: now))
        points.insert(rule.point)
    }

    /// Removes the rules with this name, all of them when nil; returns how many there were.
    package mutating func remove(named name: String?) -> Int {
        let before = armed.count
        armed.removeAll { name == nil || $0.rule.name == name }
        points = Set(armed.map(\.rule.point))
        return before - armed.count
    }

    /// Returns whether any rule waits at this point: the quick check for none.
    package func isArmed(at point: FaultRule.Point) -> Bool { points.contains(point) }

    /// Returns the steps of the first rule that applies.
    package mutating func steps(
        at point: FaultRule.Point,
        for subject: Subject,
        now: Date,
        random: inout SeededGenerator
    ) -> [FaultStep] {
        guard isArmed(at: point) else { return [] }
        for index in armed.indices where armed[index].rule.point == point {
            if armed[index].applies(to: subject, now: now, random: &random) { return armed[index].rule.steps }
        }
        return []
    }
}

extension FaultEngine.Armed {
    fileprivate mutating func applies(
        to subject: FaultEngine.Subject,
        now: Date,
        random: inout SeededGenerator
    ) -> Bool {
        let match = rule.match
        if let count = match.count, fired >= count { return false }
        let age = now.timeIntervalSince(addedAt)
        if age < match.from.inSeconds { return false }
        if let until = match.until, age >= until.inSeconds { return false }
        if let listener = match.listener, listener != subject.listener { return false }
        if let prefix = match.tokenPrefix, subject.token?.hasPrefix(prefix) != true { return false }
        if let topic = match.topic, subject.topic != topic { return false }
        if let prefix = match.pathPrefix, subject.path?.hasPrefix(prefix) != true { return false }
        if let connection = match.connection, subject.connection != connection { return false }
        seen += 1
        if let requests = match.requests, !requests.contains(seen) { return false }
        if let every = match.every, every > 0, seen % every != 0 { return false }
        if let share = match.share, Double.random(in: 0..<1, using: &random) >= share { return false }
        fired += 1
        return true
    }
}
