public import Foundation
public import ChaparCore

/// A push that starts, updates or ends a Live Activity.
///
/// It goes to the token that the app got for it, as a token of `ios-apns` (the push-to-start token of the attributes'
/// type for a start, the token of the running activity for the rest), or as an update or end to a broadcast channel, by
/// `Recipient.platformID`. Title, body and sound of the notification become its alert, unless it has one of its own.
///
/// The app decodes state and attributes with the system's default decoder, so they are encoded in its form (dates are
/// seconds since 2001); a `JSONValue` goes through unchanged.
/// Source: Apple, "Starting and updating Live Activities with ActivityKit push notifications".
public struct APNsLiveActivity: Sendable, Hashable {
    /// The kinds of change: an activity starts, changes or ends.
    @nonexhaustive
    public enum Event: Sendable, Hashable {
        /// It begins, with the name and the value of the app's attributes type (iOS 17.2).
        case start(attributesType: String, attributes: JSONValue, updates: Updates? = nil)
        /// It changes.
        case update
        /// It ends, and leaves the screen at a time; nil is Apple's own time, a past one is at once.
        case end(dismissal: Date? = nil)
    }

    /// The way in which a started activity gets its updates (iOS 18; older systems fail to start with a channel).
    @nonexhaustive
    public enum Updates: Sendable, Hashable {
        /// By a token of its own, which the app gets.
        case token
        /// By a broadcast channel, given by its id.
        case channel(String)
    }

    /// The alert that lights up the device; an update without one is silent.
    public struct Alert: Sendable, Hashable {
        /// The heading.
        public var title: AppText?
        /// The text.
        public var body: AppText?
        /// A file of the app, or `default`.
        public var sound: String?

        /// Makes an alert.
        public init(title: AppText? = nil, body: AppText? = nil, sound: String? = nil) {
            self.title = title
            self.body = body
            self.sound = sound
        }
    }

    /// The change of the activity.
    public var event: Event
    /// The state that the activity shows from now on: the app's `ContentState`, an object; only an end may leave it
    /// out.
    public var state: JSONValue?
    /// The time of the state, to the second; a device ignores a state that is older than the one it has.
    public var timestamp: Date
    /// The alert that lights up the device; nil leaves it to the notification's title and body.
    public var alert: Alert?
    /// When the state is out of date.
    public var staleDate: Date?
    /// The rank among the app's activities, any number: the highest is shown first.
    public var relevanceScore: Double?

    /// Makes a push of values that are JSON already.
    public init(
        _ event: Event,
        state: JSONValue?,
        at timestamp: Date,
        alert: Alert? = nil,
        staleDate: Date? = nil,
        relevanceScore: Double? = nil
    ) {
        self.event = event
        self.state = state
        self.timestamp = timestamp
        self.alert = alert
        self.staleDate = staleDate
        self.relevanceScore = relevanceScore
    }

    /// Starts an activity; it needs an alert, or a title and body of the notification.
    ///
    /// - Parameters:
    ///   - attributes: The values that stay the same while the activity runs.
    ///   - type: The name of the attributes' type in the app.
    ///   - state: The first state that it shows.
    ///   - timestamp: When that was true.
    ///   - alert: The alert that lights up the device.
    ///   - updates: How it is to get its updates.
    /// - Returns: The push to send.
    /// - Throws: `PayloadError` when the attributes or the state cannot be encoded.
    public static func start(
        _ attributes: some Encodable,
        type: String,
        state: some Encodable,
        at timestamp: Date,
        alert: Alert? = nil,
        updates: Updates? = nil
    ) throws(PayloadError) -> APNsLiveActivity {
        let attributes = try encoded(attributes, "attributes")
        return APNsLiveActivity(
            .start(attributesType: type, attributes: attributes, updates: updates),
            state: try encoded(state, "content-state"),
            at: timestamp,
            alert: alert
        )
    }

    /// Changes a running activity.
    ///
    /// - Parameters:
    ///   - state: The state that it shows from now on.
    ///   - timestamp: When that was true.
    ///   - alert: The alert that lights up the device; nil is silent, unless the notification has a title or body.
    /// - Returns: The push to send.
    /// - Throws: `PayloadError` when the state cannot be encoded.
    public static func update(
        _ state: some Encodable,
        at timestamp: Date,
        alert: Alert? = nil
    ) throws(PayloadError) -> APNsLiveActivity {
        APNsLiveActivity(.update, state: try encoded(state, "content-state"), at: timestamp, alert: alert)
    }

    /// Ends an activity with a last state.
    ///
    /// - Parameters:
    ///   - state: The last state that it shows.
    ///   - timestamp: When that was true.
    ///   - dismissal: When it leaves the screen; nil is Apple's own time, a past one is at once.
    /// - Returns: The push to send.
    /// - Throws: `PayloadError` when the state cannot be encoded.
    public static func end(
        _ state: some Encodable,
        at timestamp: Date,
        dismissal: Date? = nil
    ) throws(PayloadError) -> APNsLiveActivity {
        APNsLiveActivity(.end(dismissal: dismissal), state: try encoded(state, "content-state"), at: timestamp)
    }

    /// Ends an activity as it is.
    ///
    /// - Parameters:
    ///   - timestamp: When it ended.
    ///   - dismissal: When it leaves the screen; nil is Apple's own time, a past one is at once.
    /// - Returns: The push to send.
    public static func end(at timestamp: Date, dismissal: Date? = nil) -> APNsLiveActivity {
        APNsLiveActivity(.end(dismissal: dismissal), state: nil, at: timestamp)
    }

    /// The members of `aps`.
    var aps: JSONObject {
        var aps: JSONObject = ["timestamp": .seconds(timestamp)]
        switch event {
        case .start(let type, let attributes, let updates):
            aps["event"] = "start"
            aps["attributes-type"] = .string(type)
            aps["attributes"] = attributes
            switch updates {
            case .token?: aps["input-push-token"] = 1
            case .channel(let id)?: aps["input-push-channel"] = .string(id)
            case nil: break
            }
        case .update: aps["event"] = "update"
        case .end(let dismissal):
            aps["event"] = "end"
            aps["dismissal-date"] = dismissal.map { .seconds($0) }
        }
        aps["content-state"] = state
        aps["stale-date"] = staleDate.map { .seconds($0) }
        aps["relevance-score"] = relevanceScore.map { .number($0) }
        aps["alert"] = alert.map { .object($0.members) }
        return aps
    }

    private static func encoded(_ value: some Encodable, _ name: String) throws(PayloadError) -> JSONValue {
        do {
            return try JSONValue(encoding: value)
        } catch {
            // Not the error's own words, which may hold the value.
            let path = (error as? EncodingError)?.pathText ?? ""
            let detail = "\(name) cannot be written as JSON\(path.isEmpty ? "" : ", at \(path)")."
            throw PayloadError([APNsCheck.fault("/aps/\(name)", "not_encodable", detail)])
        }
    }
}

extension APNsLiveActivity.Alert {
    /// The members of the alert.
    ///
    /// Apple nests keys here: a text is a JSON string, or an object with a key of the app.
    fileprivate var members: JSONObject {
        var members = JSONObject()
        members["title"] = title.map(Self.value)
        members["body"] = body.map(Self.value)
        members["sound"] = sound.map { .string($0) }
        return members
    }

    private static func value(_ text: AppText) -> JSONValue {
        switch text {
        case .plain(let text): .string(text)
        case .key(let key, let arguments):
            arguments.isEmpty
                ? ["loc-key": .string(key)] : ["loc-key": .string(key), "loc-args": .texts(arguments)]
        }
    }
}

extension EncodingError {
    /// The path of names to what could not be encoded.
    fileprivate var pathText: String {
        guard case .invalidValue(_, let context) = self else { return "" }
        return context.codingPath.map(\.stringValue).joined(separator: "/")
    }
}
