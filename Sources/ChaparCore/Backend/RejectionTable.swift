/// The rows of a table of rejections that begin with an HTTP status.
///
/// The first row that has the status is used, so a row for a class of statuses (such as 5xx) must come after the rows
/// for single statuses of the class.
package struct StatusTable<Meaning: Sendable>: Sendable, ExpressibleByArrayLiteral {
    /// A row: statuses, and what they mean.
    package struct Row: Sendable {
        fileprivate let statuses: [ClosedRange<Int>]
        package let meaning: Meaning

        /// Makes a row for single statuses.
        package static func on(_ statuses: Int..., means meaning: Meaning) -> Row {
            Row(statuses: statuses.map { $0...$0 }, meaning: meaning)
        }

        /// Makes a row for a class of statuses.
        package static func within(_ statuses: ClosedRange<Int>, means meaning: Meaning) -> Row {
            Row(statuses: [statuses], meaning: meaning)
        }

        /// Makes the row for all statuses that no row above it has.
        package static func others(means meaning: Meaning) -> Row {
            Row(statuses: [Int.min...Int.max], meaning: meaning)
        }
    }

    /// The rows, in their order.
    package let rows: [Row]

    package init(arrayLiteral rows: Row...) { self.rows = rows }

    /// The meaning of a status; nil when no row has it.
    package subscript(status: Int) -> Meaning? { first(status) { _ in true } }

    /// Returns the first meaning of a status for which `isMeant` is true; nil when no row has one.
    package func first(_ status: Int, where isMeant: (Meaning) -> Bool) -> Meaning? {
        rows.first { row in row.statuses.contains { $0.contains(status) } && isMeant(row.meaning) }?.meaning
    }
}

/// A row of a table of rejections: whose fault it is, the reason, what to do next, and a sentence with the fix.
package struct RejectionRule: Sendable, Hashable {
    package var kind: Refusal.Kind
    package var reason: String
    /// The advice; one without a span takes the pause that the platform asked for.
    package var advice: Refusal.Advice
    package var fix: String?

    /// Makes a row.
    package init(_ kind: Refusal.Kind, _ reason: String, _ advice: Refusal.Advice, _ fix: String? = nil) {
        self.kind = kind
        self.reason = reason
        self.advice = advice
        self.fix = fix
    }

    /// Returns the refusal that the row stands for, with the platform's own words before the fix.
    package func refusal(status: Int, words: String?, pause: Duration?) -> Refusal {
        let detail = [words, fix].compactMap(\.self).joined(separator: ". ")
        return Refusal(
            kind,
            reason: reason,
            detail: detail.isEmpty ? nil : detail,
            status: status,
            advice: advice.asked(pause)
        )
    }
}

/// A row of a table for calls that are no messages: the error, and a sentence with the fix.
package struct CallRule: Sendable, Hashable {
    package var code: PushError.Code
    /// The sentence; nil where the fix depends on other fields of the answer.
    package var sentence: String?

    /// Makes a row.
    package init(_ code: PushError.Code, _ sentence: String? = nil) {
        self.code = code
        self.sentence = sentence
    }
}

extension Refusal.Advice {
    /// Returns the same advice with the pause that the platform asked for, unless it has a span of its own.
    package func asked(_ pause: Duration?) -> Refusal.Advice {
        switch self {
        case .retry(after: nil): .retry(after: pause)
        case .slowRecipient(after: nil): .slowRecipient(after: pause)
        case .slowBackend(after: nil): .slowBackend(after: pause)
        case .never, .retry, .slowRecipient, .slowBackend, .parkBackend: self
        }
    }
}

extension String {
    /// Returns the sentence of a row with a value in the place of `{name}`.
    package func filled(_ name: String, _ value: String) -> String { replacing("{\(name)}", with: value) }
}
