import Foundation
import ChaparCore
import Synchronization

/// The result for one recipient of one message of `chapar send`.
struct SendResult: Sendable {
    /// The end of a message, in the words of the exit codes.
    enum Ending: String, Sendable, CaseIterable {
        /// A platform accepted it.
        case sent
        /// A gateway accepted it: it is on its disk, and will be delivered or reported.
        case accepted
        /// It was refused for good.
        case refused
        /// Not sent for now; a later attempt may work.
        case later
        /// It may have been delivered: sent, but no answer came.
        case unknown
        /// Nothing was sent, since a preview was asked for.
        case preview
    }

    /// The line of the input; 1 for a message of the command line.
    var line: Int
    /// The input's name; nil for a message of the command line.
    var file: String?
    /// The recipient, `service:token`; empty when the message was refused as a whole.
    var recipient: String
    /// How it ended.
    var ending: Ending
    /// The backend that tried it last.
    var backend: String?
    /// The platform's or gateway's id of the message.
    var id: String?
    /// The HTTP status.
    var status: Int?
    /// The reason, in the platform's own word.
    var reason: String?
    /// A sentence for people.
    var detail: String?
    /// The request that the platform would get, for a preview.
    var request: JSONValue?

    /// One line for scripts.
    var json: JSONValue {
        var object: JSONObject = ["line": .integer(Int64(line)), "outcome": .string(ending.rawValue)]
        object["file"] = file.map { .string($0) }
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
            switch ending {
            case .sent: Shell.paint("sent   ", .green)
            case .accepted: Shell.paint("accepted", .green)
            case .refused: Shell.paint("refused", .red)
            case .later: Shell.paint("later  ", .yellow)
            case .unknown: Shell.paint("unknown", .yellow)
            case .preview: Shell.paint("preview", .dim)
            }
        let place = file.map { "\($0): line \(line)" }
        var parts = [label, recipient.isEmpty ? place ?? "line \(line)" : Self.short(recipient)]
        if !recipient.isEmpty, let place { parts.append(place) }
        if let backend { parts.append("via \(backend)") }
        if let status { parts.append("\(status)") }
        if let reason { parts.append(reason) }
        if let id { parts.append("id \(id)") }
        let sentences = (detail ?? "").split(whereSeparator: \.isNewline).map {
            "\n         " + $0.trimmingPrefix { $0 == " " }
        }
        return parts[0] + parts.dropFirst().map { "  " + $0.onOneLine }.joined() + sentences.joined()
    }

    /// Returns the beginning of a token, which is enough to recognise it.
    private static func short(_ recipient: String) -> String {
        recipient.count <= 28 ? recipient : recipient.prefix(26) + "…"
    }
}

/// Counts results; the exit code follows from the counts.
final class SendTally: Sendable {
    private let counts = Mutex<[SendResult.Ending: Int]>([:])

    func add(_ results: [SendResult]) {
        counts.withLock { counts in
            for result in results { counts[result.ending, default: 0] += 1 }
        }
    }

    /// The number of results.
    var total: Int { counts.withLock { $0.values.reduce(0, +) } }

    /// One line: `3 sent, 1 refused`.
    var summary: String {
        let counts = counts.withLock { $0 }
        let words = SendResult.Ending.allCases.compactMap { ending in
            counts[ending].map { "\($0) \(ending.rawValue)" }
        }
        return words.isEmpty ? "nothing to send" : words.joined(separator: ", ")
    }

    /// The exit code: 0 when all were accepted, 4 when some were, 75 when none were but some may be later, 1 when all
    /// were refused.
    var status: ExitStatus {
        let counts = counts.withLock { $0 }
        let good = (counts[.sent] ?? 0) + (counts[.accepted] ?? 0) + (counts[.preview] ?? 0)
        let total = counts.values.reduce(0, +)
        if good == total { return .success }
        if good > 0 { return .partial }
        return counts[.later] != nil || counts[.unknown] != nil ? .tryLater : .failure
    }
}
