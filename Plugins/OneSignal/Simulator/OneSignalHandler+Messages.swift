internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// Creating, viewing and cancelling messages.
extension OneSignalHandler {
    /// The time in seconds for which an idempotency key and a message are kept.
    private static let memory: TimeInterval = 30 * 86400

    private static let audiences: [[String]] = [
        ["include_subscription_ids", "include_player_ids"], ["include_aliases"], ["filters"], ["included_segments"],
        ["include_ios_tokens"], ["include_android_reg_ids"],
    ]

    func create(_ call: Call) throws(Refusal) -> SandboxAnswer {
        try reserve { $0.reserveCreate(at: call.now) }
        let key = call.body["idempotency_key"]?.stringValue ?? call.body["external_id"]?.stringValue
        if let key, UUID(uuidString: key) == nil { throw Self.refuse(400, "idempotency_key must be a valid UUID") }
        if let key {
            let kept = simulator.withState { state -> SandboxAnswer? in
                guard let kept = state.keys[key.lowercased()], call.now.timeIntervalSince(kept.at) < Self.memory else {
                    return nil
                }
                state.counters.replayed += 1
                return kept.answer
            }
            if var kept {
                kept.headers.append(HTTPHeader("idempotent-replayed", "true"))
                return kept
            }
        }
        try checkContent(call.body)
        let kinds = Self.audiences.filter { names in names.contains { call.body[$0] != nil } }
        guard let kind = kinds.first else {
            throw Self.refuse(
                400,
                "You must include which players, segments, or tags you wish to send this notification to."
            )
        }
        guard kinds.count == 1 else {
            throw Self.refuse(400, "A message has one kind of audience, not \(kinds.count).")
        }
        try checkAudience(call.body, kind)
        let answer = simulator.withState { state in Self.make(call, kind, key, in: &state) }
        return answer
    }

    // MARK: Checks

    private func checkContent(_ body: JSONObject) throws(Refusal) {
        let isSilent = body["content_available"]?.boolValue ?? false
        if body["template_id"] == nil, !(isSilent && body["contents"] == nil) {
            guard body["contents"]?["en"]?.stringValue.map({ !$0.isEmpty }) ?? false else {
                throw Self.refuse(400, "Message Notifications must have English language content")
            }
        }
        if let contents = body["contents"]?.objectValue, let headings = body["headings"]?.objectValue {
            let languages = Set(contents.map(\.name))
            guard Set(headings.map(\.name)).isSubset(of: languages) else {
                throw Self.refuse(400, "headings has a language that contents does not have")
            }
        }
        let limits: [(String, Bool)] = [
            ("data is larger than 2048 bytes", (body["data"]?.bytes.count ?? 0) > 2048),
            ("data must be an object", body["data"].map { $0.objectValue == nil } ?? false),
            ("buttons has more than 3 entries", (body["buttons"]?.arrayValue ?? []).count > 3),
            ("web_buttons has more than 2 entries", (body["web_buttons"]?.arrayValue ?? []).count > 2),
            ("name has more than 128 characters", (body["name"]?.stringValue ?? "").count > 128),
            ("collapse_id has more than 64 characters", (body["collapse_id"]?.stringValue ?? "").count > 64),
            ("ttl is out of range", body["ttl"].map { !(0...2_419_200).contains($0.integerValue ?? -1) } ?? false),
            ("priority must be 5 or 10", body["priority"].map { $0 != 5 && $0 != 10 } ?? false),
            ("filters has more than 200 entries", (body["filters"]?.arrayValue ?? []).count > 200),
            (
                "url cannot stand beside app_url and web_url",
                body["url"] != nil && (body["app_url"] ?? body["web_url"]) != nil
            ),
            (
                "ios_badgeType must be None, SetTo or Increase",
                body["ios_badgeType"].map { !["None", "SetTo", "Increase"].contains($0.stringValue ?? "") } ?? false
            ),
        ]
        if let first = limits.first(where: \.1) { throw Self.refuse(400, first.0) }
    }

    private func checkAudience(_ body: JSONObject, _ kind: [String]) throws(Refusal) {
        let limit = simulator.rules.maximumIDs
        switch kind[0] {
        case "include_subscription_ids":
            for name in kind {
                guard let value = body[name] else { continue }
                guard let list = value.arrayValue, !list.isEmpty else {
                    throw Self.refuse(400, "\(name) must be a list")
                }
                guard list.count <= limit else {
                    throw Self.refuse(400, "\(name) cannot exceed \(limit) subscription ids")
                }
                let ids = list.map { $0.stringValue ?? "" }
                guard ids.allSatisfy({ UUID(uuidString: $0) != nil }) else {
                    let word = name == "include_player_ids" ? "player_id" : "subscription_id"
                    throw Self.refuse(
                        400,
                        "Incorrect \(word) format in \(name) (not a valid UUID): \(ids.joined(separator: ", "))"
                    )
                }
            }
        case "include_aliases":
            guard body["target_channel"]?.stringValue == "push" else {
                throw Self.refuse(400, "target_channel is required with include_aliases")
            }
            let ids = (body["include_aliases"]?.objectValue ?? JSONObject()).flatMap { $0.value.arrayValue ?? [] }
            guard !ids.isEmpty else { throw Self.refuse(400, "include_aliases must name at least one alias") }
            guard ids.count <= limit else {
                throw Self.refuse(400, "include_aliases cannot exceed \(limit) external ids")
            }
        case "included_segments":
            let names = (body["included_segments"]?.arrayValue ?? []) + (body["excluded_segments"]?.arrayValue ?? [])
            for name in names {
                let text = name.stringValue ?? ""
                guard Self.everyone.contains(text) || simulator.rules.segments[text] != nil else {
                    throw Self.refuse(400, "Could not find included_segments (or any of them)")
                }
            }
        case "filters":
            guard let filters = body["filters"]?.arrayValue, !filters.isEmpty, OneSignalFilters.isWellFormed(filters)
            else {
                throw Self.refuse(400, "filters is not well-formed")
            }
        default: break
        }
    }

    private static let everyone: Set<String> = ["All", "Subscribed Users", "Total Subscriptions"]

    // MARK: Making

    private static func make(_ call: Call, _ kind: [String], _ key: String?, in state: inout OneSignalState)
        -> SandboxAnswer
    {
        let (players, unsubscribed, invalidAliases) = audience(call.body, kind, in: state)
        var answer = JSONObject()
        guard !players.isEmpty else {
            answer["id"] = ""
            answer["errors"] = ["All included players are not subscribed"]
            return json(200, .object(answer))
        }
        let id = OneSignalState.newID()
        let sendAfter = call.body["send_after"]?.stringValue.flatMap(RFC3339.parse)
        state.messages[id] = OneSignalMessage(
            id: id,
            request: call.body,
            players: players,
            unsubscribed: unsubscribed.count,
            madeAt: call.now,
            sendAfter: sendAfter
        )
        state.order.append(id)
        state.counters.created += 1
        state.counters.delivered += players.count
        let title = call.body["headings"]?["en"]?.stringValue ?? call.body["contents"]?["en"]?.stringValue ?? ""
        for player in players {
            state.players[player]?.received.append(title)
            if state.players[player]?.received.count ?? 0 > 100 { state.players[player]?.received.removeFirst() }
        }
        answer["id"] = .string(id)
        answer["external_id"] = key.map { .string($0) } ?? .null
        if call.body["include_player_ids"] != nil { answer["recipients"] = .integer(Int64(players.count)) }
        var errors = JSONObject()
        if !unsubscribed.isEmpty { errors["invalid_player_ids"] = .array(unsubscribed.map { .string($0) }) }
        if !invalidAliases.isEmpty {
            var labels = JSONObject()
            for (label, ids) in invalidAliases { labels[label] = .array(ids.map { .string($0) }) }
            errors["invalid_aliases"] = .object(labels)
        }
        if !errors.isEmpty { answer["errors"] = .object(errors) }
        let made = json(200, .object(answer))
        if let key { state.keys[key.lowercased()] = .init(answer: made, at: call.now) }
        return made
    }

    /// Returns the players that get a message, the named ones that are not subscribed, and the users who have such a
    /// player.
    private static func audience(
        _ body: JSONObject,
        _ kind: [String],
        in state: OneSignalState
    ) -> (players: [String], unsubscribed: [String], aliases: [(label: String, ids: [String])]) {
        func texts(_ value: JSONValue?) -> [String] { (value?.arrayValue ?? []).compactMap(\.stringValue) }
        let everybody = state.players.values.sorted { $0.id < $1.id }
        switch kind[0] {
        case "include_subscription_ids":
            let ids = kind.flatMap { texts(body[$0]) }
            var players: [String] = []
            var unsubscribed: [String] = []
            var seen: Set<String> = []
            for id in ids.map({ $0.lowercased() }) where seen.insert(id).inserted {
                guard !state.rules.isWrongApp else { unsubscribed.append(id); continue }
                guard let player = state.players[id] else { continue }  // Ignored without an error.
                if player.isSubscribed { players.append(id) } else { unsubscribed.append(id) }
            }
            return (players, unsubscribed, [])
        case "include_aliases":
            var players: [String] = []
            var invalid: [(label: String, ids: [String])] = []
            for (label, ids) in body["include_aliases"]?.objectValue ?? JSONObject() {
                var unsubscribed: [String] = []
                for alias in Set(texts(ids)).sorted() {
                    guard let user = state.user(label, alias) else { continue }
                    for player in everybody where player.user == user {
                        if player.isSubscribed { players.append(player.id) } else { unsubscribed.append(alias) }
                    }
                }
                if !unsubscribed.isEmpty { invalid.append((label, unsubscribed)) }
            }
            return (players, [], invalid)
        case "filters":
            let filters = body["filters"]?.arrayValue ?? []
            let players = everybody.filter {
                $0.isSubscribed && OneSignalFilters.match(filters, $0, state.tags(of: $0))
            }
            return (players.map(\.id), [], [])
        case "included_segments":
            func holds(_ names: [String], _ player: OneSignalPlayer) -> Bool {
                names.contains { name in
                    if everyone.contains(name) { return true }
                    guard let filter = state.rules.segments[name] else { return false }
                    return OneSignalFilters.match(filter, state.tags(of: player))
                }
            }
            let (included, excluded) = (texts(body["included_segments"]), texts(body["excluded_segments"]))
            let players = everybody.filter { $0.isSubscribed && holds(included, $0) && !holds(excluded, $0) }
            return (players.map(\.id), [], [])
        default:
            let tokens = Set(texts(body[kind[0]]))
            return (everybody.filter { $0.isSubscribed && tokens.contains($0.token) }.map(\.id), [], [])
        }
    }

    // MARK: Looking and cancelling

    func view(_ call: Call) throws(Refusal) -> SandboxAnswer {
        try reserve { $0.reserveView(at: call.now) }
        guard let message = message(call) else { throw Self.refuse(404, "Notification not found") }
        return Self.json(200, Self.show(message, call.now))
    }

    func list(_ call: Call) throws(Refusal) -> SandboxAnswer {
        try reserve { $0.reserveView(at: call.now) }
        let limit = min(50, Int(call.query["limit"] ?? "") ?? 50)
        let offset = max(0, Int(call.query["offset"] ?? "") ?? 0)
        let all = Array(simulator.messages.reversed())
        let page = all.dropFirst(offset).prefix(limit).map { Self.show($0, call.now) }
        return Self.json(
            200,
            [
                "total_count": .integer(Int64(all.count)), "offset": .integer(Int64(offset)),
                "limit": .integer(Int64(limit)), "notifications": .array(Array(page)),
            ]
        )
    }

    func cancel(_ call: Call) throws(Refusal) -> SandboxAnswer {
        try reserve { $0.reserveCreate(at: call.now) }
        guard let message = message(call) else { throw Self.refuse(404, "Notification not found") }
        guard message.isCancelled || message.sendAfter.map({ $0 > call.now }) ?? false else {
            throw Self.refuse(400, "Notification has already been sent to all recipients")
        }
        simulator.withState { $0.messages[message.id]?.isCancelled = true }
        return Self.json(200, ["success": true])
    }

    private func message(_ call: Call) -> OneSignalMessage? {
        let message = simulator.withState { $0.messages[call.path[1]] }
        return message.flatMap { call.now.timeIntervalSince($0.madeAt) < Self.memory ? $0 : nil }
    }

    private static func show(_ message: OneSignalMessage, _ now: Date) -> JSONValue {
        let isWaiting = message.sendAfter.map { $0 > now } ?? false
        let isDone = !isWaiting && !message.isCancelled
        var object: JSONObject = [
            "id": .string(message.id), "canceled": .bool(message.isCancelled),
            "successful": .integer(isDone ? Int64(message.players.count) : 0),
            "failed": .integer(isDone ? Int64(message.unsubscribed) : 0), "errored": 0, "converted": 0,
            "received": .null, "remaining": isDone ? 0 : .null,
            "queued_at": .integer(Int64(clamping: message.madeAt.timeIntervalSince1970)),
            "send_after": .integer(Int64(clamping: (message.sendAfter ?? message.madeAt).timeIntervalSince1970)),
            "completed_at": isDone ? .integer(Int64(clamping: now.timeIntervalSince1970)) : .null,
        ]
        for name in ["contents", "headings", "data", "name"] { object[name] = message.request[name] }
        return .object(object)
    }
}

/// Evaluates OneSignal's filters.
///
/// The simulator uses them to find the players of a message: `AND` binds more tightly than `OR`. A field that the
/// simulator does not record matches no player.
enum OneSignalFilters {
    /// Returns whether every entry is a condition or an OR between two.
    static func isWellFormed(_ filters: [JSONValue]) -> Bool {
        var wasCondition = false
        for filter in filters {
            if let word = filter["operator"]?.stringValue {
                if word == "AND" { continue }
                guard word == "OR", wasCondition else { return false }
                wasCondition = false
            } else {
                guard filter["field"]?.stringValue != nil else { return false }
                let operands = ["value", "key", "relation", "hours_ago", "radius", "lat", "long"]
                guard operands.allSatisfy({ filter[$0] == nil || filter[$0]?.stringValue != nil }) else { return false }
                wasCondition = true
            }
        }
        return wasCondition
    }

    static func match(_ filters: [JSONValue], _ player: OneSignalPlayer, _ tags: [String: String]) -> Bool {
        filters.split { $0["operator"]?.stringValue == "OR" }.contains { branch in
            branch.allSatisfy { $0["operator"] != nil || holds($0, player, tags) }
        }
    }

    static func match(_ filter: TagFilter, _ tags: [String: String]) -> Bool {
        func has(_ tag: String) -> Bool {
            let sides = tag.split(separator: ":", maxSplits: 1).map(String.init)
            return sides.count == 2 ? tags[sides[0]] == sides[1] : tags[tag] != nil
        }
        return filter.all.allSatisfy(has) && !filter.none.contains(where: has)
            && (filter.any.isEmpty || filter.any.contains(where: has))
    }

    private static func holds(_ filter: JSONValue, _ player: OneSignalPlayer, _ tags: [String: String]) -> Bool {
        let value = filter["value"]?.stringValue ?? ""
        let seen: String?
        switch filter["field"]?.stringValue {
        case "tag": seen = tags[filter["key"]?.stringValue ?? ""]
        case "language": seen = player.fields["language"]
        case "app_version": seen = player.fields["app_version"]
        case "country": seen = player.fields["country"]
        default: return false  // A field that the simulator does not record matches no player.
        }
        switch filter["relation"]?.stringValue ?? "=" {
        case "=": return seen == value
        case "!=": return seen != value
        case "exists": return seen != nil
        case "not_exists": return seen == nil
        case ">": return (seen.flatMap { Double($0) } ?? -.infinity) > (Double(value) ?? .infinity)
        case "<": return (seen.flatMap { Double($0) } ?? .infinity) < (Double(value) ?? -.infinity)
        case "in_array": return seen.map { value.split(separator: ",").map(String.init).contains($0) } ?? false
        case "not_in_array": return !(seen.map { value.split(separator: ",").map(String.init).contains($0) } ?? false)
        default: return false
        }
    }
}
