internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// The news about backends that gateways on one store send each other.
///
/// Times are on the store's steady clock, which the gateways share too.
enum NodeNews: Sendable, Equatable {
    /// A platform asked for a pause; `identity` identifies the backend under any name.
    case paused(backend: String, identity: String, until: Date, reason: String)
    /// An operator asked for a retry of a backend's work at once.
    case retried(backend: String)
    /// Answers that were counted since the last news, and the identity of the backend if it has accepted a message.
    ///
    /// An older version sends neither callers nor identity: its answers then count for no single caller.
    case answers(backend: String, AnswerCounts, acceptedUnder: String?)
    /// The guard has tripped, and invalidations are quarantined.
    case quarantined(backend: String, InvalidationGuard.Trip)
    /// An operator has resolved them.
    case settled(backend: String, isTrusting: Bool)

    /// The note with this news.
    var note: NodeNote {
        var object = JSONObject()
        let topic: String
        switch self {
        case .paused(let backend, let identity, let until, let reason):
            topic = "paused"
            object["backend"] = .string(backend)
            object["identity"] = .string(identity)
            object["until"] = .integer(until.millisecondsSince1970)
            object["reason"] = .string(reason)
        case .retried(let backend):
            topic = "retried"
            object["backend"] = .string(backend)
        case .answers(let backend, let counts, let identity):
            topic = "answers"
            object["backend"] = .string(backend)
            object["answers"] = .integer(Int64(counts.answers))
            object["uncertain"] = .integer(Int64(counts.dead.uncertain))
            object["certain"] = .integer(Int64(counts.dead.certain))
            if !counts.callers.isEmpty { object["callers"] = .object(Self.told(counts.callers)) }
            if let identity { object["identity"] = .string(identity) }
        case .quarantined(let backend, let trip):
            topic = "held"
            object["backend"] = .string(backend)
            object["trip"] = .string(String(decoding: trip.stored, as: UTF8.self))
        case .settled(let backend, let isTrusting):
            topic = "settled"
            object["backend"] = .string(backend)
            object["trusting"] = .bool(isTrusting)
        }
        return NodeNote(topic: topic, body: JSONValue.object(object).bytes)
    }

    /// Reads a note; nil for one that this version does not know.
    init?(_ note: NodeNote) {
        guard let value = try? JSONValue(parsing: note.body), let backend = value["backend"]?.stringValue else {
            return nil
        }
        func count(_ key: String) -> Int { Int(count: value[key]?.integerValue ?? 0) }
        switch note.topic {
        case "paused":
            guard let identity = value["identity"]?.stringValue, let until = value["until"]?.integerValue else {
                return nil
            }
            self = .paused(
                backend: backend,
                identity: identity,
                until: Date(millisecondsSince1970: until),
                reason: value["reason"]?.stringValue ?? ""
            )
        case "retried": self = .retried(backend: backend)
        case "answers":
            let counts = AnswerCounts(
                answers: count("answers"),
                dead: AnswerCounts.Dead(uncertain: count("uncertain"), certain: count("certain")),
                callers: Self.callers(in: value["callers"]?.objectValue)
            )
            self = .answers(backend: backend, counts, acceptedUnder: value["identity"]?.stringValue)
        case "held":  // As gateways of older versions write and read it.
            guard let text = value["trip"]?.stringValue, let trip = InvalidationGuard.Trip(stored: Array(text.utf8))
            else {
                return nil
            }
            self = .quarantined(backend: backend, trip)
        case "settled": self = .settled(backend: backend, isTrusting: value["trusting"]?.boolValue ?? false)
        default: return nil
        }
    }

    private static func told(_ callers: [String: AnswerCounts.Dead]) -> JSONObject {
        var object = JSONObject()
        for (caller, dead) in callers {
            object[caller] = ["uncertain": .integer(Int64(dead.uncertain)), "certain": .integer(Int64(dead.certain))]
        }
        return object
    }

    private static func callers(in object: JSONObject?) -> [String: AnswerCounts.Dead] {
        var callers: [String: AnswerCounts.Dead] = [:]
        for (caller, value) in (object?.members ?? []).prefix(AnswerCounts.mostCallers) {
            callers[caller] = AnswerCounts.Dead(
                uncertain: Int(count: value["uncertain"]?.integerValue ?? 0),
                certain: Int(count: value["certain"]?.integerValue ?? 0)
            )
        }
        return callers
    }
}
