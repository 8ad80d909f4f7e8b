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
    }

    /// The most API keys that are told apart; the answers of further ones are in the sums only.
    static let mostCallers = 64

    /// How many came.
    var answers = 0
    /// How many of them declared a token dead that may be alive.
    var uncertain = 0
    /// How many of them declared a token dead for certain.
    var certain = 0
    /// The dead-token answers by the name of the API key, at most ``mostCallers``.
    ///
    /// Those without a key are in the sums only.
    var callers: [String: Dead] = [:]

    /// How many of them declared a token dead.
    var dead: Int { uncertain + certain }

    /// Adds a dead-token answer to a message of a caller; the sums stay.
    mutating func attribute(to caller: String, isCertain: Bool) {
        guard !caller.isEmpty, hasRoom(for: caller) else { return }
        callers[caller, default: Dead()].uncertain += isCertain ? 0 : 1
        callers[caller, default: Dead()].certain += isCertain ? 1 : 0
    }

    /// Adds others.
    mutating func add(_ other: AnswerCounts) {
        answers += other.answers
        uncertain += other.uncertain
        certain += other.certain
        for (caller, dead) in other.callers where dead.total > 0 && hasRoom(for: caller) {
            callers[caller, default: Dead()].uncertain += dead.uncertain
            callers[caller, default: Dead()].certain += dead.certain
        }
    }

    /// Takes others out again that were added.
    mutating func subtract(_ other: AnswerCounts) {
        answers -= other.answers
        uncertain -= other.uncertain
        certain -= other.certain
        for (caller, dead) in other.callers {
            guard var own = callers[caller] else { continue }
            own.uncertain -= dead.uncertain
            own.certain -= dead.certain
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
        rest.uncertain = max(0, uncertain - dead.uncertain)
        rest.certain = max(0, certain - dead.certain)
        return rest
    }

    private func hasRoom(for caller: String) -> Bool {
        callers.count < Self.mostCallers || callers[caller] != nil
    }
}
