public import Foundation
public import ChaparCore

/// Messages that OneSignal has taken: their reports and their cancellation.
///
/// All reads together are limited to one request a second for each app; callers wait their turn.
public struct OneSignalMessages: MessageCanceller, MessageTracker {
    /// OneSignal's report on a message.
    ///
    /// Counts are of all recipients together, never of one.
    public struct Report: Sendable, Hashable {
        /// The message's id.
        public var id: String
        /// The state of the message.
        public var state: DeliveryState
        /// Handed to the device's platform.
        public var successful: Int
        /// Found unsubscribed.
        public var failed: Int
        /// Refused by the device's platform.
        public var errored: Int
        /// Clicked.
        public var converted: Int
        /// Confirmed by devices; nil where the plan does not tell.
        public var received: Int?
        /// Not handed on yet; nil while the audience is being worked out.
        public var remaining: Int?
        /// When it was done.
        public var completedAt: Date?

        /// Reads a message as OneSignal shows it.
        init?(_ json: JSONObject, now: Date) {
            guard let id = json["id"]?.stringValue, !id.isEmpty else { return nil }
            func count(_ name: String) -> Int? { json[name]?.integerValue.map { Int(count: $0) } }
            func time(_ name: String) -> Date? {
                switch json[name] {
                case .integer(let seconds)?: Date(timeIntervalSince1970: Double(seconds))
                case .double(let seconds)?: Date(timeIntervalSince1970: seconds)
                case .string(let text)?: RFC3339.parse(text)
                default: nil
                }
            }
            self.id = id
            successful = count("successful") ?? 0
            failed = count("failed") ?? 0
            errored = count("errored") ?? 0
            converted = count("converted") ?? 0
            received = count("received")
            remaining = count("remaining")
            completedAt = time("completed_at")
            if json["canceled"]?.boolValue ?? false {
                state = .cancelled
            } else if completedAt != nil || remaining == 0 {
                state = .acceptedByPlatform
            } else if let start = time("send_after"), start > now {
                state = .scheduled
            } else {
                state = .sending
            }
        }
    }

    /// The result of making a message directly.
    @nonexhaustive
    public enum Creation: Sendable, Hashable {
        /// It exists under this id; these targets are not subscribed.
        case made(id: String, invalid: [String], isReplay: Bool)
        /// No recipient matched, so that there is no message.
        case nobody(String)
    }

    let client: OneSignalClient

    /// Makes a message for any audience in one request, also for one that a `Recipient` cannot name (aliases of other
    /// labels, filters on sessions, excluded segments).
    ///
    /// - Parameters:
    ///   - notification: The content.
    ///   - audience: Whom it goes to; at most the platform's limit of ids.
    ///   - key: A UUID that stays the same when the call is repeated.
    /// - Returns: The result: the message, or that no recipient matched.
    /// - Throws: When no message was made, or when that is unknown.
    public func create(
        _ notification: PushNotification,
        to audience: OneSignalAudience,
        key: UUID
    ) async throws(PushError) -> Creation {
        if let fault = OneSignalCheck.faults(notification).first {
            throw PushError(.invalidRequest, fault.detail, reason: fault.code)
        }
        if let count = audience.count, !(1...20_000).contains(count) {
            throw PushError(.invalidRequest, "a request takes 1 to 20,000 ids", reason: OneSignalBatch.tooMany)
        }
        if case .segments(let names, _) = audience,
            let refusal = names.lazy.compactMap({ client.options.broadcastRule.refusal(of: .topic($0)) }).first
        {
            throw PushError(.invalidRequest, refusal.detail ?? "", reason: refusal.reason)
        }
        if case .filters(let filters) = audience {
            let isWhole = !filters.isEmpty && filters.last != .or && filters.first != .or
            guard isWhole, filters.count <= OneSignalFilter.limit else {
                throw PushError(.invalidRequest, "1 to 200 filters, with no OR at an end", reason: "bad_filters")
            }
        }
        let isScheduled = client.options.schedulesOnPlatform
        let body = OneSignalPayload(
            notification,
            remaining: notification.timeToLive?.components.seconds,
            sendAfter: isScheduled ? notification.sendAt : nil
        )
        let bytes = body.bytes(
            appID: client.options.appID,
            audience: audience,
            key: key.uuidString.lowercased(),
            isLegacy: client.options.deviceAPI == .players
        )
        switch try await client.exchange("POST", "/notifications", bytes, quota: .messages) {
        case .failure(let failure): throw failure.pushError
        case .success(let answer):
            guard (200..<300).contains(answer.status) else { throw OneSignalRejections.error(answer) }
            guard answer.body != nil else {
                throw PushError(.badAnswer, "OneSignal's answer is no JSON object", reason: "bad_answer")
            }
            guard let id = answer.id else { return .nobody(answer.text ?? "no recipient matched") }
            let invalid = answer.entries("invalid_player_ids") + answer.invalidAliases
            return .made(id: id, invalid: invalid, isReplay: answer.isReplayed)
        }
    }

    /// Reads a message; nil when OneSignal does not know it, or has removed it after 30 days.
    public func report(of platformID: String) async throws(PushError) -> Report? {
        let path = try OneSignalClient.path("notifications", platformID) + "?app_id=\(client.options.appID)"
        let answer = try await client.call("GET", path, quota: .views) { Self.isUnknown($0) }
        guard !Self.isUnknown(answer) else { return nil }
        guard let body = answer.body, let report = Report(body, now: client.time.now) else {
            throw PushError(.badAnswer, "OneSignal's answer shows no message", reason: "bad_answer")
        }
        return report
    }

    /// Reads the newest messages, at most 50, in one request.
    public func list(limit: Int = 50, offset: Int = 0) async throws(PushError) -> [Report] {
        let query = "?app_id=\(client.options.appID)&limit=\(min(max(limit, 1), 50))&offset=\(max(offset, 0))&kind=1"
        let answer = try await client.call("GET", "/notifications\(query)", quota: .views)
        guard let list = answer.body?["notifications"]?.arrayValue else {
            throw PushError(.badAnswer, "OneSignal's answer is no list of messages", reason: "bad_answer")
        }
        return list.compactMap { $0.objectValue.flatMap { Report($0, now: client.time.now) } }
    }

    /// Returns the state of a message.
    public func state(of platformID: String) async throws(PushError) -> DeliveryState? {
        try await report(of: platformID)?.state
    }

    /// Returns how many of `expected` recipients OneSignal has not counted in a finished message: ids that the app does
    /// not know.
    ///
    /// Nil while the message is under way. OneSignal does not name the ids.
    public func shortfall(of platformID: String, expected: Int) async throws(PushError) -> Int? {
        guard let report = try await report(of: platformID), report.completedAt != nil else { return nil }
        return max(0, expected - report.successful - report.failed - report.errored)
    }

    /// Cancels the part of a message that has not gone out; returns false when all of it has.
    ///
    /// Repeating it is harmless.
    public func cancel(platformID: String) async throws(PushError) -> Bool {
        let path = try OneSignalClient.path("notifications", platformID) + "?app_id=\(client.options.appID)"
        let answer = try await client.call("DELETE", path, quota: .messages) { $0.status == 400 || $0.status == 404 }
        if answer.status == 404 || answer.mentions("Notification not found") {
            throw PushError(.invalidRequest, "OneSignal does not know the message", reason: "not_found")
        }
        if answer.status == 400 { return false }
        guard let success = answer.body?["success"] else {
            throw PushError(.badAnswer, "OneSignal's answer does not say whether it cancelled", reason: "bad_answer")
        }
        return success.boolValue ?? (success.stringValue == "true")
    }

    private static func isUnknown(_ answer: OneSignalAnswer) -> Bool {
        answer.status == 404 || answer.status == 400 && answer.mentions("Notification not found")
    }
}
