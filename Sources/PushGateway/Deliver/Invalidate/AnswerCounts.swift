/// Answers of one backend, and how many of them declared a token dead: in all, and by the API key of their messages.
struct AnswerCounts: Sendable, Equatable {
    /// Answers that declared a token dead.
    struct Dead: Sendable, Equatable {
        /// Those that a wrong configuration explains as well.
        var uncertain = 0
        /// Those that only a dead token explains.
        var certain = 0

        /// Both.
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

    /// The most API keys that are told apart; the answers of further ones are in ``dead`` only.
    static let mostCallers = 64

    /// How many came.
    var answers = 0
    /// Those of them that declared a token dead.
    var dead = Dead()
    /// The dead-token answers by the name of the API key, at most ``mostCallers``.
    ///
    /// Those without a key are in ``dead`` only.
    var callers: [String: Dead] = [:]

    /// Adds what one of the answers declared of a token: it is dead, `isCertain` or not; `caller` is empty without a
    /// key.
    mutating func addDead(isCertain: Bool, caller: String) {
        let one = isCertain ? Dead(certain: 1) : Dead(uncertain: 1)
        dead += one
        attribute(one, to: caller)
    }

    /// Adds others.
    mutating func add(_ other: AnswerCounts) {
        answers += other.answers
        dead += other.dead
        for (caller, dead) in other.callers where dead.total > 0 { attribute(dead, to: caller) }
    }

    /// Takes others out again that were added.
    mutating func subtract(_ other: AnswerCounts) {
        answers -= other.answers
        dead -= other.dead
        for (caller, dead) in other.callers {
            guard var own = callers[caller] else { continue }
            own -= dead
            callers[caller] = own.total > 0 ? own : nil
        }
    }

    /// Takes the dead-token answers of one caller out of everything.
    mutating func remove(_ caller: String) {
        guard let dead = callers.removeValue(forKey: caller) else { return }
        self = without(dead)
    }

    /// The same without some dead-token answers; the callers stay.
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
