public import Foundation
public import ChaparCore

/// An event of Altcraft, as the SDK reports it to the app.
///
/// Two events are equal when their ids are. Never holds a push token or a credential, only their fingerprints.
public struct AltcraftEvent: Sendable, Identifiable {
    /// How bad it is.
    @nonexhaustive
    public enum Level: String, Sendable {
        /// A success: `Event` in the SDK.
        case info
        /// It failed and is not repeated: `ErrorEvent`.
        case error
        /// It failed, and another attempt may succeed: `RetryEvent`.
        ///
        /// Operations without a retry policy are not repeated.
        case retry
    }

    /// Its id.
    public let id: UUID
    /// How bad it is.
    public let level: Level
    /// The name of the function that the event is about.
    ///
    /// Informative only: its text changed between releases of the SDK.
    public let function: String
    /// A sentence for people.
    public let message: String?
    /// The number; see ``AltcraftEventCodes``.
    public let eventCode: Int?
    /// Further values, such as `uid`, `type`, `provider`; nil without any.
    ///
    /// A ``response`` is in it as `response_with_http_code`.
    public let value: JSONObject?
    /// Altcraft's answer, with its push token as a fingerprint; nil when there was none.
    public let response: ResponseWithHttp?
    /// When it happened.
    public let date: Date
    /// The gateway's id of the device it is about.
    public var device: String?
    /// The request it is about.
    public var requestID: UUID?

    /// Makes an event: parameters in `function` are left out, members of `value` that are null too.
    public init(
        _ level: Level,
        function: String,
        message: String? = nil,
        eventCode: Int? = nil,
        value: JSONObject? = nil,
        response: ResponseWithHttp? = nil,
        date: Date,
        device: String? = nil,
        requestID: UUID? = nil
    ) {
        id = UUID()
        self.level = level
        let name = function.prefix { $0 != "(" }
        self.function = name.count < function.count ? "\(name)()" : function
        self.message = message
        self.eventCode = eventCode
        var kept = JSONObject()
        for (name, member) in value ?? JSONObject() where member != .null { kept[name] = member }
        if let response { kept["response_with_http_code"] = .object(response.json) }
        self.value = kept.isEmpty ? nil : kept
        self.response = response
        self.date = date
        self.device = device
        self.requestID = requestID
    }

    /// The event in the form of the gateway's stream.
    public var notice: BackendNotice {
        var detail = value ?? JSONObject()
        if let eventCode { detail["code"] = .integer(Int64(eventCode)) }
        if let requestID { detail["request_id"] = .string(requestID.uuidString.lowercased()) }
        let level: BackendNotice.Level =
            switch level {
            case .info: .info
            case .error: .error
            case .retry: .retry
            }
        return BackendNotice(level, function, device: device, message: message ?? "", detail: detail)
    }
}

extension AltcraftEvent: Hashable {
    /// Equal ids.
    public static func == (left: AltcraftEvent, right: AltcraftEvent) -> Bool { left.id == right.id }
    /// Hashes the id.
    public func hash(into hasher: inout Hasher) { hasher.combine(id) }
}
