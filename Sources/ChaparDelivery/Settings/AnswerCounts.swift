/// The number of answers of one backend, and of those that called a token dead, in total and by API key.
struct AnswerCounts: Sendable, Equatable {
    /// Answers that called a token dead.
    struct Dead: Sendable, Equatable {
        /// Answers that a wrong configuration explains as well.
        var uncertain = 0
        /// Answers that only a dead token explains.
        var certain = 0

        /// The sum of both.
        var total: Int { uncertain + certain }

        static func += (left: inout Dead, right: Dead) {
            left.uncertain += right.uncertain
            left.certain += right.certain
        }

        static func -= (left: inout Dead, right: Dead) {
            left.uncertain -= right.uncertain
            left.certain -= right.certain
        }
    }

    /// The most API keys that are counted separately; answers of further keys are in ``dead`` only.
    static let mostCallers = 64

    /// The number of all answers.
    var answers = 0
    /// The answers that called a token dead.
    var dead = Dead()
    /// The dead-token answers by the name of the API key, at most ``mostCallers``.
    ///
    /// Answers without a key are in ``dead`` only.
    var callers: [String: Dead] = [:]

    /// Adds that one of the answers called a token dead, for certain or not; `caller` is empty without a key.
    mutating func addDead(isCertain: Bool, caller: String) {
        let one = isCertain ? Dead(certain: 1) : Dead(uncertain: 1)
        dead += one
        attribute(one, to: caller)
    }

    /// Adds other counts.
    mutating func add(_ other: AnswerCounts) {
        answers += other.answers
        dead += other.dead
        for (caller, dead) in other.callers where dead.total > 0 { attribute(dead, to: caller) }
    }

    /// Subtracts counts that were added before.
    mutating func subtract(_ other: AnswerCounts) {
        answers -= other.answers
        dead -= other.dead
        for (caller, dead) in other.callers {
            guard var own = callers[caller] else { continue }
            own -= dead
            callers[caller] = own.total > 0 ? own : nil
        }
    }

    /// Removes the dead-token answers of one caller from all counts.
    mutating func remove(_ caller: String) {
        guard let dead = callers.removeValue(forKey: caller) else { return }
        self = without(dead)
    }

    /// Returns the counts without some dead-token answers; the callers stay.
    func without(_ dead: Dead) -> AnswerCounts {
        var rest = self
        rest.answers = max(0, answers - dead.total)
        rest.dead.uncertain = max(0, self.dead.uncertain - dead.uncertain)
        rest.dead.certain = max(0, self.dead.certain - dead.certain)
        return rest
    }

    private mutating func attribute(_ dead: Dead, to caller: String) {
        guard !caller.isEmpty, callers.count < Self.mostCallers || callers[caller] != nil else { return }
        callers[caller, default: Dead()] += dead
    }
}
