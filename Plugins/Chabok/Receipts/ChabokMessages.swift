public import Foundation
public import ChaparCore

/// Messages to any audience, their states, and the panel's reports.
///
/// The gateway uses it as the backend's tracker and recaller; code also sends with it to audiences that a notification
/// cannot name. It stores nothing: every answer is read from Chabok.
public struct ChabokMessages: MessageTracker, MessageRecaller {
    /// The ids and the device count of messages that Chabok took.
    public struct Sent: Sendable, Hashable {
        /// The ids of the messages; none where Chabok gave none.
        public var ids: [String]
        /// The number of devices that were addressed, not of users or deliveries; nil where Chabok does not report it.
        public var devices: Int?
    }

    /// How a message fares.
    public struct Status: Sendable, Hashable {
        /// The state of the message.
        @nonexhaustive
        public enum State: Sendable, Hashable {
            /// It waits for its user.
            case queued
            /// It reached a device.
            case delivered
            /// It was dismissed.
            case dismissed
            /// It was read.
            case opened
            /// Its time to live ended first.
            case expired
        }

        /// The state of the message.
        public var state: State
        /// The users or devices that confirmed the delivery, as far as they can be read.
        public var delivered: [String]
        /// The users or devices that have seen it.
        public var seen: [String]
        /// The users or devices that have dismissed it.
        public var dismissed: [String]
    }

    /// A device that lost the app.
    public struct Uninstall: Sendable, Hashable {
        /// The time at which Chabok noticed it.
        public var at: Date?
        /// The installation.
        public var installation: String
        /// Its user.
        public var user: String?
        /// `ios`, `android` and so on.
        public var deviceType: String?
    }

    let client: ChabokClient

    // MARK: Sending

    /// Sends to an audience, in one call for each 500 users.
    ///
    /// - Parameters:
    ///   - notification: The content.
    ///   - audience: Whom it goes to.
    ///   - mechanism: How it travels; nil is what the options say.
    ///   - allowsBroadcast: Must be true for ``ChabokAudience/everyone`` and a channel that reaches every user, unless
    ///     the options allow it.
    /// - Returns: The messages that Chabok took; a count of 0 means that no user matched.
    /// - Throws: When Chabok accepted nothing, or `PushError.Code.unknownOutcome`.
    public func send(
        _ notification: PushNotification,
        to audience: ChabokAudience,
        mechanism: ChabokOptions.Mechanism? = nil,
        allowsBroadcast: Bool = false
    ) async throws(PushError) -> Sent {
        let options = client.options
        var message = ChabokPayload(
            notification,
            language: nil,
            remaining: notification.timeToLive.map { Int64(clamping: $0.inSeconds.rounded(.up)) },
            mechanism: mechanism,
            options: options
        )
        var adjusted = options
        adjusted.mechanism = message.mechanism
        let problems =
            ChabokCheck.examine(notification, for: nil, options: adjusted).faults.map(\.detail)
            + Self.problems(audience, message.mechanism, options, allowsBroadcast)
        guard problems.isEmpty else {
            throw PushError(.invalidRequest, problems.joined(separator: " "), reason: "invalid_message")
        }
        let isMessage = message.mechanism == .message
        let channel = isMessage ? message.channel ?? options.channel : nil
        let own = isMessage ? "/push/toUsers" : "/push/notifyUsers"
        let query = isMessage ? "/push/byQuery" : "/push/notifyUsers"
        switch audience {
        case .user(let id):
            let path = message.mechanism == .smart ? "/push/notifyToUsers" : own
            return try await post(path, message.body(["user": .string(id)], channel: channel))
        case .users(let ids):
            var sent = Sent(ids: [], devices: nil)
            for start in stride(from: 0, to: ids.count, by: ChabokBatch.chunk) {
                let part = ids[start..<min(start + ChabokBatch.chunk, ids.count)].map { JSONValue.string($0) }
                let more = try await post(own, message.body(["users": .array(part)], channel: channel))
                sent.ids += more.ids
                if let devices = more.devices { sent.devices = (sent.devices ?? 0) + devices }
            }
            return sent
        case .segment(let segment):
            return try await post(query, message.body(["segment": segment.json], channel: channel))
        case .target(let target): return try await post(query, message.body(["target": target], channel: channel))
        case .channel(let name):
            let normal = ChabokChannel(name)?.normalized ?? name
            return try await post("/push/toUsers", message.body(["user": "*"], channel: normal))
        case .everyone:
            message.dropMessageOnly()
            let everybody: JSONValue = options.writesEmptyTargetAsText ? "{}" : [:]
            return try await post("/push/notifyUsers", message.body(["target": everybody]))
        }
    }

    /// Sends a notification to one user, in a call that takes neither data nor a time to live.
    public func notify(_ notification: PushNotification, user: String) async throws(PushError) -> Sent {
        if let problem = ChabokUserID.problem(user, minimum: client.options.minimumUserIDLength) {
            throw PushError(.invalidRequest, problem, reason: "bad_user")
        }
        let message = ChabokPayload(
            notification,
            language: nil,
            remaining: nil,
            mechanism: .notification,
            options: client.options
        )
        guard case .object(let bare)? = message.body([:])["notification"], bare["title"] != nil else {
            throw PushError(.invalidRequest, "A notification alone needs a title", reason: "title_missing")
        }
        return try await post(ChabokClient.path("push", "notifyUser", user), bare)
    }

    private static func problems(
        _ audience: ChabokAudience,
        _ way: ChabokOptions.Mechanism,
        _ options: ChabokOptions,
        _ allowsBroadcast: Bool
    ) -> [String] {
        func user(_ id: String) -> String? { ChabokUserID.problem(id, minimum: options.minimumUserIDLength) }
        if way == .smart {
            guard case .user(let id) = audience else { return ["A smart message goes to one user at a time."] }
            return user(id).map { [$0] } ?? []
        }
        switch audience {
        case .user(let id): return user(id).map { [$0] } ?? []
        case .users(let ids): return ids.isEmpty ? ["There is no user."] : Array(Set(ids.compactMap(user)))
        case .segment(let segment): return segment.problems.map(\.detail)
        case .target(let target):
            let isEmpty = target.objectValue?.isEmpty ?? (target.stringValue.map { $0.isEmpty || $0 == "{}" } ?? true)
            return isEmpty ? ["An empty target addresses every user: say everyone."] : []
        case .channel(let name):
            if way == .notification { return ["Notifications have no channels."] }
            guard ChabokChannel(name).map({ !$0.isPrivate }) ?? false else {
                return ["A public channel is name or public/name."]
            }
            let isOpen = allowsBroadcast || options.broadcastRule.refusal(of: .topic(name)) == nil
            return isOpen ? [] : ["The channel reaches every user: that needs allowsBroadcast."]
        case .everyone:
            return allowsBroadcast || options.broadcast.isAllowed
                ? [] : ["A message to every user needs allowsBroadcast."]
        }
    }

    /// Asks apps to remove notifications, by a convention of Chapar's that the apps must support; Chabok does not know
    /// it.
    ///
    /// - Parameters:
    ///   - ids: The messages; nil for all.
    ///   - user: The user whose devices are asked.
    /// - Returns: The request that Chabok accepted; the apps may not have removed anything yet.
    /// - Throws: When Chabok accepted nothing.
    public func requestCancellation(of ids: [String]?, at user: String) async throws(PushError) -> Sent {
        var data: JSONObject = ["gw_op": ids == nil ? "cancelAll" : "cancel"]
        if let ids { data["ids"] = .array(ids.map { .string($0) }) }
        return try await send(PushNotification(data: data, isSilent: true), to: .user(user), mechanism: .message)
    }

    /// Asks the apps of a user to remove notifications (``requestCancellation(of:at:)``); returns false when Chabok
    /// addressed no device.
    public func recall(_ ids: [String]?, from user: String) async throws(PushError) -> Bool {
        try await requestCancellation(of: ids, at: user).devices != 0
    }

    private func post(_ path: String, _ body: JSONObject) async throws(PushError) -> Sent {
        switch try await client.exchange("POST", path, .object(body)) {
        case .failure(let failure):
            throw ChabokRejections.error(failure, isRepeatable: client.options.resendsAmbiguous)
        case .success(let answer):
            guard answer.isSuccess else { throw ChabokRejections.error(answer) }
            guard let entries = answer.entries else {
                throw PushError(.unknownOutcome, "Chabok's answer is no JSON", reason: "bad_answer")
            }
            return Sent(ids: entries.compactMap(\.id), devices: answer.count)
        }
    }

    // MARK: Looking

    /// Returns the state of a message; nil when Chabok does not know the message.
    public func status(of id: String) async throws(PushError) -> Status? {
        let answer = try await client.call("GET", ChabokClient.path("messages", "fetchById", id), accepting: [404])
        guard answer.status != 404 else { return nil }
        guard let json = answer.json?.objectValue else {
            throw PushError(.badAnswer, "Chabok's answer shows no message", reason: "bad_answer")
        }
        return Status(json, now: client.time.now)
    }

    /// Returns the state of a message.
    public func state(of platformID: String) async throws(PushError) -> DeliveryState? {
        switch try await status(of: platformID)?.state {
        case nil: nil
        case .queued: .acceptedByPlatform
        case .delivered, .dismissed: .delivered
        case .opened: .opened
        case .expired: .expired
        }
    }

    /// The most rows of a report that are read, so that a report without an end does not fill the memory.
    static let mostUninstalls = 100_000

    /// Returns the devices that lost the app in a span of time, all pages of the report; at most 100,000.
    ///
    /// - Parameters:
    ///   - from: The start.
    ///   - to: The end; not before the start.
    ///   - churnOnly: Whether only users without another active device are listed.
    ///   - page: The number of rows of each call.
    /// - Returns: The devices, in the report's order.
    /// - Throws: When a page cannot be read, or there are too many rows.
    public func uninstalls(
        from: Date,
        to: Date,
        churnOnly: Bool = false,
        page: Int = 100
    ) async throws(PushError) -> [Uninstall] {
        guard from <= to else { throw PushError(.invalidRequest, "from is after to", reason: "bad_span") }
        let span = "\(from.millisecondsSince1970)/\(to.millisecondsSince1970)"
        var found: [Uninstall] = []
        var offset = 0
        while true {
            let path = "/installations/v1/uninstall/report/\(span)?offset=\(offset)&limit=\(max(1, page))"
            let answer = try await client.call("GET", path + (churnOnly ? "&type=churn" : ""))
            guard let rows = answer.json?["data"]?.arrayValue, let count = answer.json?["count"]?.integerValue else {
                throw PushError(.badAnswer, "Chabok's answer is no report", reason: "bad_answer")
            }
            found += rows.compactMap { row in
                ChabokAnswer.text(row["installationId"]).map {
                    Uninstall(
                        at: ChabokTime.read(row["time"]),
                        installation: $0,
                        user: ChabokAnswer.text(row["userId"]),
                        deviceType: row["deviceType"]?.stringValue
                    )
                }
            }
            offset += rows.count
            guard offset <= Self.mostUninstalls else {
                let detail = "The report has more than \(Self.mostUninstalls) rows: ask for a shorter span"
                throw PushError(.badAnswer, detail, reason: "report_too_large")
            }
            // A page without rows ends the report as well, since the count may be wrong.
            if rows.isEmpty || offset >= Int(clamping: count) { return found }
        }
    }

    // MARK: Verification

    /// Sends a user a code.
    public func requestCode(for user: String) async throws(PushError) -> Bool {
        try await result(ChabokClient.path("verification", "requestCode", user), isRepeatable: false)
    }

    /// Returns whether the code is the one that was sent to the user.
    public func verify(_ code: String, of user: String) async throws(PushError) -> Bool {
        try await result(ChabokClient.path("verification", "verifyCode", user, code), isRepeatable: false)
    }

    private func result(_ path: String, isRepeatable: Bool) async throws(PushError) -> Bool {
        let answer = try await client.call("GET", path, isRepeatable: isRepeatable)
        guard let result = answer.json?["result"]?.boolValue else {
            throw PushError(.badAnswer, "Chabok's answer has no result", reason: "bad_answer")
        }
        return result
    }
}

extension ChabokMessages.Status {
    /// Reads a message.
    ///
    /// The elements of its lists may be texts, numbers or objects: their form is not documented.
    init(_ json: JSONObject, now: Date) {
        func list(_ name: String) -> [String] {
            (json[name]?.arrayValue ?? []).map { element in
                ChabokAnswer.text(element) ?? ChabokAnswer.text(element["userId"])
                    ?? ChabokAnswer.text(element["deviceId"]) ?? element.text
            }
        }
        (delivered, seen, dismissed) = (list("delivered"), list("seen"), list("dismiss"))
        if !seen.isEmpty {
            state = .opened
        } else if !dismissed.isEmpty {
            state = .dismissed
        } else if !delivered.isEmpty {
            state = .delivered
        } else if let made = ChabokTime.read(json["createdAt"]), let life = json["ttl"]?.integerValue,
            made.addingTimeInterval(Double(life)) < now
        {
            state = .expired
        } else {
            state = .queued
        }
    }
}
