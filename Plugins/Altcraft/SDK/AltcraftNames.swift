public import Foundation
public import ChaparCore
public import ChaparAltcraft

/// The SDK's public constants.
public enum Constants {
    /// The names of the token services in ``AltcraftConfiguration/Builder/setProviderPriorityList(_:)``.
    public enum ProviderName {
        /// Firebase.
        public static let firebase = "ios-firebase"
        /// APNs.
        public static let apns = "ios-apns"
        /// HMS.
        public static let huawei = "ios-huawei"
    }
}

/// The SDK's name for ``EventSDKFunctions``.
public typealias SDKEvents = EventSDKFunctions
/// The SDK's name for ``AltcraftSubscriptionFunctions``.
public typealias PublicPushSubscriptionFunctions = AltcraftSubscriptionFunctions
/// The SDK's name for ``AltcraftTokenFunctions``.
public typealias PublicPushTokenFunctions = AltcraftTokenFunctions
/// The SDK's name for ``AltcraftEventFunctions``.
public typealias PublicPushEventFunctions = AltcraftEventFunctions
/// The SDK's name for ``AltcraftBackgroundTasks``.
public typealias BackgroundTasks = AltcraftBackgroundTasks
/// The SDK's name for ``AltcraftNotifications``.
public typealias NotificationManager = AltcraftNotifications
/// The SDK's name for ``ChaparAltcraft/ActionField``.
public typealias ActionFieldBuilder = ActionField

extension ActionField {
    /// As ``set(_:)``.
    public func set(value: JSONValue) -> JSONObject { set(value) }
    /// As ``unset(_:)``.
    public func unset(value: JSONValue) -> JSONObject { unset(value) }
    /// As ``incr(_:)``.
    public func incr(value: JSONValue) -> JSONObject { incr(value) }
    /// As ``add(_:submatch:)``.
    public func add(value: JSONValue) -> JSONObject { add(value) }
    /// As ``delete(_:submatch:)``.
    public func delete(value: JSONValue) -> JSONObject { delete(value) }
    /// As ``upsert(_:submatch:)``.
    public func upsert(value: JSONValue) -> JSONObject { upsert(value) }
}

// Unchecked because the class is not final: every property is immutable and of a Sendable type, the two subclasses
// below add none, and no other module can inherit from a class that is not open.

/// An event, as the SDK reports it to its subscriber: information, unless it is an ``ErrorEvent``.
///
/// Two events are equal when their ids are. An event holds push tokens as fingerprints only.
public class Event: Hashable, @unchecked Sendable {
    /// Its id.
    public let id: UUID
    /// The name of the function that the event is about; informative only.
    public let function: String
    /// A sentence for people.
    public let message: String?
    /// The number; see ``ChaparAltcraft/AltcraftEventCodes``.
    public let eventCode: Int?
    /// Further values: ``ChaparAltcraft/ResponseWithHttp`` as `response_with_http_code`, texts such as `uid`, `type`,
    /// `provider`; nil without any.
    public let value: [String: (any Sendable)?]?
    /// When it happened.
    public let date: Date

    fileprivate init(_ event: AltcraftEvent) {
        id = event.id
        function = event.function
        message = event.message
        eventCode = event.eventCode
        date = event.date
        var values: [String: (any Sendable)?] = [:]
        for (name, value) in event.value ?? JSONObject() { values[name] = .some(value.plain) }
        if let response = event.response { values["response_with_http_code"] = .some(response) }
        value = values.isEmpty ? nil : values
    }

    /// Returns an instance of the class for the event's level.
    static func make(_ event: AltcraftEvent) -> Event {
        switch event.level {
        case .info: Event(event)
        case .error: ErrorEvent(event)
        case .retry: RetryEvent(event)
        }
    }

    /// Equal ids.
    public static func == (left: Event, right: Event) -> Bool { left.id == right.id }
    /// Hashes the id.
    public func hash(into hasher: inout Hasher) { hasher.combine(id) }
}

/// A failure that is not repeated.
public class ErrorEvent: Event, @unchecked Sendable {}

/// A failure after which another attempt may succeed; the SDK repeats it where the operation has a retry policy.
public final class RetryEvent: ErrorEvent, @unchecked Sendable {}

extension JSONValue {
    /// The value as Swift's own type; a list or an object stays a JSON value.
    fileprivate var plain: any Sendable {
        switch self {
        case .string(let text): text
        case .integer(let number): Int(clamping: number)
        case .double(let number): number
        case .bool(let flag): flag
        case .null, .array, .object: self
        }
    }
}
