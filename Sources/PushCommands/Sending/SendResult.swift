import Foundation
import PushCore
import Synchronization

/// What became of one recipient of one message of `chapar send`.
struct SendResult: Sendable {
    /// How it ended, in the words of the exit codes.
    enum Verdict: String, Sendable, CaseIterable {
        /// A platform took it.
        case sent
        /// A gateway took it: it is on its disk, and will be delivered or reported.
        case accepted
        /// It was refused for good.
        case refused
        /// Not sent for now; the same may work later.
        case later
        /// It may have been delivered: sent, but no answer came.
        case unknown
        /// Nothing was sent, as was asked.
        case preview
    }

    /// The line of the input, 1 for a message of the command line.
    var line: Int
    /// Whom it was for, `service:token`; empty when the message as a whole was refused.
    var recipient: String
    /// How it ended.
    var verdict: Verdict
    /// The backend that had it last.
    var backend: String?
    /// The platform's or gateway's id of the message.
    var id: String?
    /// The HTTP status.
    var status: Int?
    /// The platform's own word.
    var reason: String?
    /// A sentence for people.
    var detail: String?
    /// What the platform would be sent, for a preview.
    var request: JSONValue?

    /// One line for scripts.
    var json: JSONValue {
        var object: JSONObject = ["line": .integer(Int64(line)), "outcome": .string(verdict.rawValue)]
        if !recipient.isEmpty { object["recipient"] = .string(recipient) }
        object["backend"] = backend.map { .string($0) }
        object["id"] = id.map { .string($0) }
        object["status"] = status.map { .integer(Int64($0)) }
        object["reason"] = reason.map { .string($0) }
        object["detail"] = detail.map { .string($0) }
        object["request"] = request
        return .object(object)
    }

    /// One line for people.
    var text: String {
        let label =
            switch verdict {
            case .sent: Shell.paint("sent   ", .green)
            case .accepted: Shell.paint("accepted", .green)
            case .refused: Shell.paint("refused", .red)
            case .later: Shell.paint("later  ", .yellow)
            case .unknown: Shell.paint("unknown", .yellow)
            case .preview: Shell.paint("preview", .dim)
            }
        var parts = [label, recipient.isEmpty ? "line \(line)" : Self.short(recipient)]
        if let backend { parts.append("via \(backend)") }
        if let status { parts.append("\(status)") }
        if let reason { parts.append(reason) }
        if let id { parts.append("id \(id)") }
        let sentences = (detail ?? "").split(whereSeparator: \.isNewline).map {
            "\n         " + $0.trimmingPrefix { $0 == " " }
        }
        return parts[0] + parts.dropFirst().map { "  " + $0.onOneLine }.joined() + sentences.joined()
    }

    /// The beginning of a token is enough to know it again.
    private static func short(_ recipient: String) -> String {
        recipient.count <= 28 ? recipient : recipient.prefix(26) + "…"
    }
}

/// Counts results and gives the exit code that follows from them.
final class SendTally: Sendable {
    private let counts = Mutex<[SendResult.Verdict: Int]>([:])

    func add(_ results: [SendResult]) {
        counts.withLock { counts in
            for result in results { counts[result.verdict, default: 0] += 1 }
        }
    }

    /// How many results there are.
    var total: Int { counts.withLock { $0.values.reduce(0, +) } }

    /// One line: `3 sent, 1 refused`.
    var summary: String {
        let counts = counts.withLock { $0 }
        let words = SendResult.Verdict.allCases.compactMap { verdict in
            counts[verdict].map { "\($0) \(verdict.rawValue)" }
        }
        return words.isEmpty ? "nothing to send" : words.joined(separator: ", ")
    }

    /// All taken: 0; some: 4; none, but some may be taken later: 75; all refused: 1.
    var status: ExitStatus {
        let counts = counts.withLock { $0 }
        let good = (counts[.sent] ?? 0) + (counts[.accepted] ?? 0) + (counts[.preview] ?? 0)
        let total = counts.values.reduce(0, +)
        if good == total { return .success }
        if good > 0 { return .partial }
        return counts[.later] != nil || counts[.unknown] != nil ? .tryLater : .failure
    }
}
