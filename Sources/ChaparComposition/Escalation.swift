package import ChaparCore

/// The rule of a plan for messages that were not reported as delivered: later backends that cost more take over.
///
/// The backends that take over are those from ``step`` to the end of the plan. A message goes to them in two cases: no
/// earlier backend took it; or an earlier backend took it and the time ``after`` has passed without the awaited report
/// from the platform or the app.
package struct Escalation: Sendable, Hashable {
    /// The report that ends the wait.
    package enum Report: String, Sendable, CaseIterable {
        /// It arrived; an opening says so too.
        case delivered
        /// It was opened.
        case opened
    }

    /// The first step whose backend takes over.
    package var step: Int
    /// The time between the acceptance by a backend before ``step`` and the take-over; kept to the millisecond.
    package var after: Duration
    /// The report that ends the wait.
    package var unless: Report
    /// The most messages a day, of all gateways on the store, for which each backend takes over; nil for no limit.
    package var maximumPerDay: Int?

    /// Makes a rule.
    package init(step: Int, after: Duration, unless: Report = .delivered, maximumPerDay: Int? = nil) {
        (self.step, self.after, self.unless, self.maximumPerDay) = (step, after, unless, maximumPerDay)
    }

    /// Whether a report of this state ends the wait.
    package func isEnded(by state: DeliveryState) -> Bool {
        switch state {
        case .opened: true
        case .delivered: unless == .delivered
        default: false
        }
    }

    /// The words of the rule in a plan's stored form: step, milliseconds, report, and the limit if there is one.
    var storedForm: String {
        let limit = maximumPerDay.map { ":\($0)" } ?? ""
        return "\(step):\(after.inMilliseconds):\(unless.rawValue)\(limit)"
    }

    /// Reads ``storedForm``; nil for what is not one.
    init?(storedForm text: Substring) {
        let words = text.split(separator: ":", omittingEmptySubsequences: false)
        guard words.count == 3 || words.count == 4, let step = Int(words[0]), step >= 0,
            let milliseconds = Int64(words[1]), let report = Report(rawValue: String(words[2]))
        else { return nil }
        var limit: Int?
        if words.count == 4 {
            guard let number = Int(words[3]) else { return nil }
            limit = number
        }
        self.init(step: step, after: .milliseconds(milliseconds), unless: report, maximumPerDay: limit)
    }
}

extension DeliveryPlan {
    /// Whether a step is one of those that take over.
    package func isEscalated(at step: Int) -> Bool { escalation.map { step >= $0.step } ?? false }

    /// Returns the plan with only those of its backends that fit, in order; nil without any.
    package func filtered(by fits: (String) -> Bool) -> DeliveryPlan? {
        let kept = backends.filter(fits)
        guard !kept.isEmpty else { return nil }
        var plan = self
        plan.backends = kept
        guard kept.count < backends.count, var rule = escalation else { return plan }
        // Backends have one place in a chain.
        rule.step = kept.count { backends.prefix(rule.step).contains($0) }
        plan.escalation = rule.step < kept.count ? rule : nil
        return plan
    }
}
