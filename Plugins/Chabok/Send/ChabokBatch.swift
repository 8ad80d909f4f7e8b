import ChaparCore

/// One recipient's place in the requests of a send.
struct ChabokSlot: Hashable, Sendable {
    var request: Int
    var recipient: Int
    var messageID: MessageID
}

/// One call, with the recipients that its answer is for.
struct ChabokBatchRequest: Sendable {
    var path: String
    var body: JSONValue
    /// The recipients of each message of the call: an array of bodies has several messages, any other call has one.
    var members: [[ChabokSlot]]
    /// Whether the call is for an audience whose size only Chabok knows.
    var isForAudience = false

    var slots: [ChabokSlot] { members.flatMap(\.self) }
}

/// The target of one recipient, after devices were looked up.
enum ChabokTarget: Sendable {
    case user(String)
    /// A device, as its private channel.
    case installation(String, of: String)
    case channel(String)
    case segment(ChabokSegment)
    case everyone
    case refused(Refusal)
}

/// Puts the recipients of a send into as few calls as Chabok's API allows.
///
/// Users with the same body share a call of up to ``chunk``; single users with different bodies share an array.
struct ChabokBatch {
    /// The most users of one call.
    ///
    /// Chabok documents no limit; this one is Chapar's.
    static let chunk = 500
    /// The most bodies in one array.
    static let arrayLimit = 100

    private(set) var calls: [ChabokBatchRequest] = []
    private var groups: [Key: [(user: String, slots: [ChabokSlot])]] = [:]
    private var order: [Key] = []
    private var bodies: [Key: JSONObject] = [:]
    private var seen: [Key: [String: Int]] = [:]

    /// The key of a body that is the same for several users.
    struct Key: Hashable, Sendable {
        fileprivate let path: String
        fileprivate let text: [UInt8]
    }

    /// A message with its key, made once for all recipients of a request with the same language.
    struct Draft: Sendable {
        fileprivate let message: ChabokPayload
        fileprivate let key: Key
        fileprivate let body: JSONObject

        init(_ message: ChabokPayload, _ options: ChabokOptions) {
            self.message = message
            let channel = message.mechanism == .message ? message.channel ?? options.channel : nil
            body = message.body([:], channel: channel)
            key = Key(path: ChabokBatch.path(message.mechanism), text: JSONValue.object(body).bytes)
        }
    }

    fileprivate static func path(_ way: ChabokOptions.Mechanism) -> String {
        switch way {
        case .message: "/push/toUsers"
        case .notification: "/push/notifyUsers"
        case .smart: "/push/notifyToUsers"
        }
    }

    /// Adds a recipient that was not refused.
    mutating func add(_ target: ChabokTarget, _ draft: Draft, _ options: ChabokOptions, _ slot: ChabokSlot) {
        let message = draft.message
        let path = Self.path(message.mechanism)
        func audience(_ path: String, _ audience: JSONObject, channel: String? = nil) {
            calls.append(
                ChabokBatchRequest(
                    path: path,
                    body: .object(message.body(audience, channel: channel)),
                    members: [[slot]],
                    isForAudience: true
                )
            )
        }
        switch target {
        case .user(let user):
            let key = draft.key
            if groups[key] == nil {
                order.append(key)
                bodies[key] = draft.body
            }
            if let index = seen[key]?[user] {
                groups[key]?[index].slots.append(slot)
            } else {
                seen[key, default: [:]][user] = groups[key]?.count ?? 0
                groups[key, default: []].append((user, [slot]))
            }
        case .installation(let id, let user):
            let body = message.body(["user": .string(user)], channel: "private/\(id)", clientID: "\(slot.messageID)")
            calls.append(ChabokBatchRequest(path: path, body: .object(body), members: [[slot]]))
        case .channel(let name):
            let channel = (ChabokChannel(name)?.normalized) ?? "public/\(name)"
            audience(path, ["user": "*"], channel: channel)
        case .segment(let segment):
            let isMessage = message.mechanism == .message
            let channel = isMessage ? message.channel ?? options.channel : nil
            audience(isMessage ? "/push/byQuery" : path, ["segment": segment.json], channel: channel)
        case .everyone:
            let everybody: JSONValue = options.writesEmptyTargetAsText ? "{}" : [:]
            var members = message
            members.dropMessageOnly()
            calls.append(
                ChabokBatchRequest(
                    path: "/push/notifyUsers",
                    body: .object(members.body(["target": everybody])),
                    members: [[slot]],
                    isForAudience: true
                )
            )
        case .refused: break
        }
    }

    /// Cuts the users into calls; nothing may be added afterwards.
    mutating func finish() {
        var singles: [String: [(JSONObject, [ChabokSlot])]] = [:]
        for key in order {
            let users = groups[key] ?? []
            let common = bodies[key] ?? JSONObject()
            let isSmart = key.path == Self.path(.smart)
            if users.count == 1 || isSmart {
                for (user, slots) in users {
                    var body = JSONObject()
                    body["user"] = .string(user)
                    for (name, value) in common { body[name] = value }
                    if key.path == Self.path(.message), let slot = slots.first {
                        body["clientId"] = .string("\(slot.messageID)")
                    }
                    singles[key.path, default: []].append((body, slots))
                }
                continue
            }
            for start in stride(from: 0, to: users.count, by: Self.chunk) {
                let part = users[start..<min(start + Self.chunk, users.count)]
                var body: JSONObject = ["users": .array(part.map { .string($0.user) })]
                for (name, value) in common { body[name] = value }
                calls.append(ChabokBatchRequest(path: key.path, body: .object(body), members: [part.flatMap(\.slots)]))
            }
        }
        for (path, bodies) in singles.sorted(by: { $0.key < $1.key }) {
            let size = path == Self.path(.smart) ? 1 : Self.arrayLimit
            for start in stride(from: 0, to: bodies.count, by: size) {
                let part = bodies[start..<min(start + size, bodies.count)]
                let list = part.map { JSONValue.object($0.0) }
                calls.append(
                    ChabokBatchRequest(
                        path: path,
                        body: list.count == 1 ? list[0] : .array(list),
                        members: part.map(\.1)
                    )
                )
            }
        }
        (groups, order, bodies, seen) = ([:], [], [:], [:])
    }
}

extension ChabokPayload {
    /// Removes the members that only Chabok messages have.
    mutating func dropMessageOnly() {
        for name in ["inApp", "silent", "alertText", "channel"] { remove(name) }
    }
}
