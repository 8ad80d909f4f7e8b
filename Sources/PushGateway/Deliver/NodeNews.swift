internal import Foundation
internal import PushCore
internal import PushQueue

/// What gateways that share a store tell each other about their backends: times by the store's steady clock, which they share too.
enum NodeNews: Sendable, Equatable {
    /// A platform asked for a pause; `identity` says which backend it is, whatever its name.
    case paused(backend: String, identity: String, until: Date, reason: String)
    /// An operator asked for a retry of a backend's work at once.
    case retried(backend: String)
    /// Answers that were counted since the last news, and how many of them declared a token dead.
    case answers(backend: String, answers: Int, uncertain: Int, certain: Int)
    /// Invalidations are held from now on.
    case held(backend: String, InvalidationGuard.Trip)
    /// An operator has settled them.
    case settled(backend: String, isTrusting: Bool)

    /// The note that carries it.
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
        case .answers(let backend, let answers, let uncertain, let certain):
            topic = "answers"
            object["backend"] = .string(backend)
            object["answers"] = .integer(Int64(answers))
            object["uncertain"] = .integer(Int64(uncertain))
            object["certain"] = .integer(Int64(certain))
        case .held(let backend, let trip):
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
            self = .answers(
                backend: backend,
                answers: count("answers"),
                uncertain: count("uncertain"),
                certain: count("certain")
            )
        case "held":
            guard let text = value["trip"]?.stringValue, let trip = InvalidationGuard.Trip(stored: Array(text.utf8))
            else {
                return nil
            }
            self = .held(backend: backend, trip)
        case "settled": self = .settled(backend: backend, isTrusting: value["trusting"]?.boolValue ?? false)
        default: return nil
        }
    }
}
