public import Foundation
public import ChaparCore

/// Behaviour of users, and what devices did with messages.
///
/// None of these calls is repeated when its answer was lost, since a repeat would count twice.
public struct ChabokTracker: EventReporter {
    /// One event of a user's behaviour.
    public struct Behaviour: Sendable, Hashable {
        /// The user or the installation.
        public var owner: ChabokUsers.Owner
        /// Its name.
        ///
        /// There may be at most 300 different names; beyond that Chabok drops data without an error.
        public var name: String
        /// The time of the event; nil means the time at which Chabok gets it.
        public var at: Date?
        /// Further values, of the types that attributes may have.
        public var data: JSONObject

        /// Makes a behaviour.
        public init(_ name: String, by owner: ChabokUsers.Owner, at: Date? = nil, data: JSONObject = JSONObject()) {
            self.name = name
            self.owner = owner
            self.at = at
            self.data = data
        }
    }

    /// The result of reporting many behaviours.
    public struct BulkResult: Sendable {
        /// The number of events that Chabok accepted.
        public var accepted: Int
        /// The ranges that were refused or are unknown, with the reason.
        public var failures: [(range: Range<Int>, error: PushError)]
    }

    /// The most behaviours of one request.
    public static let bulkLimit = 1000

    let client: ChabokClient
    let records: ChabokRecords
    let stream: ChabokEventStream
    let display: ChabokDisplayPolicy

    // MARK: Behaviour

    /// Reports one behaviour.
    public func track(_ behaviour: Behaviour) async throws(PushError) {
        _ = try await post("track", .object(try json(behaviour)))
    }

    /// Reports many behaviours, in requests of at most ``bulkLimit``; a request that fails does not stop the others.
    public func track(_ behaviours: [Behaviour]) async throws(PushError) -> BulkResult {
        var bodies: [JSONValue] = []
        for behaviour in behaviours { bodies.append(.object(try json(behaviour))) }
        var result = BulkResult(accepted: 0, failures: [])
        for start in stride(from: 0, to: bodies.count, by: Self.bulkLimit) {
            let range = start..<min(start + Self.bulkLimit, bodies.count)
            do throws(PushError) {
                let answer = try await post("trackBulk", .array(Array(bodies[range])))
                // Chabok's count may be wrong, so it is limited to the number of events that were sent.
                let counted = answer.json?["n"]?.integerValue.map { min(Int(count: $0), range.count) }
                result.accepted += counted ?? range.count
            } catch {
                result.failures.append((range, error))
            }
        }
        return result
    }

    /// Reports a behaviour with a revenue.
    public func trackPurchase(_ behaviour: Behaviour, revenue: Double, currency: String? = nil) async throws(PushError)
    {
        var body = try json(behaviour)
        try Self.add(revenue, currency, to: &body)
        _ = try await post("trackPurchase", .object(body))
    }

    /// Reports a revenue; Chabok names the event `Purchase`.
    public func trackRevenue(
        _ revenue: Double,
        currency: String? = nil,
        by owner: ChabokUsers.Owner,
        at time: Date? = nil,
        data: JSONObject = JSONObject()
    ) async throws(PushError) {
        var body = try json(Behaviour("Purchase", by: owner, at: time, data: data))
        body["eventName"] = nil
        try Self.add(revenue, currency, to: &body)
        _ = try await post("trackRevenue", .object(body))
    }

    private static func add(_ revenue: Double, _ currency: String?, to body: inout JSONObject) throws(PushError) {
        guard revenue.isFinite else {
            throw PushError(.invalidRequest, "revenue is a number", reason: "bad_revenue")
        }
        body["revenue"] = .number(revenue)
        if let currency { body["currency"] = .string(currency) }
    }

    private func json(_ behaviour: Behaviour) throws(PushError) -> JSONObject {
        guard !behaviour.name.isEmpty else {
            throw PushError(.invalidRequest, "a behaviour has a name", reason: "name_missing")
        }
        if let problem = ChabokUsers.problem(behaviour.data, "#/data").first {
            throw PushError(.invalidRequest, "\(problem.pointer): \(problem.detail)", reason: problem.code)
        }
        var body: JSONObject = ["eventName": .string(behaviour.name)]
        let (name, value) = behaviour.owner.member
        body[name] = value
        if let at = behaviour.at { body["eventTime"] = .integer(at.millisecondsSince1970) }
        if !behaviour.data.isEmpty { body["eventData"] = .object(behaviour.data) }
        return body
    }

    private func post(_ call: String, _ body: JSONValue) async throws(PushError) -> ChabokAnswer {
        try await client.call("POST", "/installations/\(call)", body, isRepeatable: false)
    }

    // MARK: Reports of devices

    /// Passes a notification that an app reports to the event stream and, if the options say so, to Chabok.
    ///
    /// - Parameters:
    ///   - userInfo: The payload as the app received it.
    ///   - actionIdentifier: The platform's identifier of what was tapped; nil for a report of display.
    ///   - installation: The installation's id at Chabok.
    ///   - user: The user.
    ///   - time: When it happened.
    /// - Returns: The notification, read.
    /// - Throws: When Chabok did not take it.
    public func click(
        _ userInfo: JSONObject,
        actionIdentifier: String?,
        installation: String,
        user: String?,
        at time: Date
    ) async throws(PushError) -> ChabokNotification {
        let notification = ChabokPayloadParser.parse(userInfo, actionIdentifier: actionIdentifier)
        stream.send(.messageReceived(notification))
        if client.options.forwardsClicks, let id = notification.messageID {
            try await report(
                notification.action,
                messageID: id,
                trackID: notification.trackID,
                installation: installation,
                user: user,
                deviceType: nil,
                at: time
            )
        }
        return notification
    }

    /// Reports to Chabok the action on a message on a device.
    public func report(
        _ action: ChabokNotification.Action,
        messageID: String,
        trackID: String? = nil,
        installation: String,
        user: String?,
        deviceType: String?,
        at time: Date
    ) async throws(PushError) {
        var event: JSONObject = [
            "type": 1, "actionType": .string(action.name), "msgId": .string(messageID),
            "actionTs": .integer(time.millisecondsSince1970),
        ]
        if let trackID { event["trackId"] = .string(trackID) }
        if let id = action.actionID { event["actionId"] = .string(id) }
        var body: JSONObject = [
            "installationId": .string(installation), "createdAt": .integer(client.time.now.millisecondsSince1970),
            "eventData": [.object(event)],
        ]
        if let user { body["userId"] = .string(user) }
        if let deviceType { body["deviceType"] = .string(deviceType) }
        _ = try await post("events", .object(body))
    }

    /// Returns the message's id in a payload of Chabok's; nil for any other payload.
    public func platformID(in payload: JSONObject) throws(PushError) -> String? {
        let read = ChabokPayloadParser.parse(payload)
        guard read.source == .chabokMessage || read.isLocalOverride || payload["messageId"] != nil else { return nil }
        guard let id = read.messageID else {
            throw PushError(.invalidRequest, "the payload is Chabok's, and carries no id", reason: "id_missing")
        }
        return id
    }

    /// Reports an event of a registered device; a delivery counts as shown.
    public func report(_ event: PushEvent, platformID: String, device: DeviceRecord) async throws(PushError) {
        try await report(event, platformID, device, at: client.time.now)
    }

    /// Reports an event with the time at which it happened.
    public func report(
        _ event: PushEvent,
        platformID: String,
        device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> JSONObject {
        try await report(event, platformID, device, at: attempt.at)
        return JSONObject()
    }

    private func report(
        _ event: PushEvent,
        _ platformID: String,
        _ device: DeviceRecord,
        at time: Date
    ) async throws(PushError) {
        guard let record = try await records.load(device.id) else {
            throw PushError(.invalidRequest, "the device is not registered with Chabok", reason: "not_registered")
        }
        let action: ChabokNotification.Action =
            switch event {
            case .delivered: .shown
            case .opened: .opened
            }
        try await report(
            action,
            messageID: platformID,
            installation: record.installation,
            user: record.user,
            deviceType: device.token?.service.platform,
            at: time
        )
    }
}
