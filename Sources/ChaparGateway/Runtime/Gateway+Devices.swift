public import Foundation
internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparServer
public import ChaparCore
public import ChaparQueue

extension Gateway {
    /// Creates a device in the registry or replaces it, as `PUT /v1/devices/{id}` does.
    ///
    /// Tokens of other kinds than the app's own are kept unless the registration has them. When this returns, the
    /// change is on disk. The gateway sends it to platforms that keep devices later, also after a restart.
    ///
    /// - Parameter registration: The new state of the device.
    /// - Returns: The device, and whether it is new.
    /// - Throws: `bad_device_id`, a problem with the wrong fields, or one that says that no change is taken now.
    @discardableResult
    public func register(_ registration: DeviceRegistration) async throws(GatewayProblem) -> DevicePut {
        do throws(Problem) {
            let scope = responder.ownScope("/v1/devices")
            let app = try scope.app(registration.app?.rawValue)
            return try await responder.own.devices.register(registration.id, app, registration.body, scope)
        } catch {
            throw GatewayProblem(error)
        }
    }

    /// Removes a device from the registry, as `DELETE /v1/devices/{id}` does.
    ///
    /// - Parameters:
    ///   - id: The id of the device.
    ///   - app: The app of the device; required when several apps share the gateway.
    /// - Throws: `not_found` when there is no such device; the store's failure.
    public func unregister(_ id: String, app: AppName? = nil) async throws(GatewayProblem) {
        do throws(Problem) {
            let key = try responder.ownScope("/v1/devices").app(app?.rawValue).key(id)
            try await responder.own.devices.remove(key)
        } catch {
            throw GatewayProblem(error)
        }
    }
}

/// A device as a program registers it: what is nil or empty, the device does not have afterwards.
public struct DeviceRegistration: Sendable, Hashable {
    /// A token of the device.
    public struct Token: Sendable, Hashable {
        /// The token.
        public var token: DeviceToken
        /// The purpose of the token.
        public var kind: TokenKind
        /// The environment of Apple that the token is for.
        public var environment: TokenEnvironment

        /// Makes a token; by default the app's own, of an unknown environment.
        public init(_ token: DeviceToken, kind: TokenKind = .device, environment: TokenEnvironment = .unknown) {
            self.token = token
            self.kind = kind
            self.environment = environment
        }
    }

    /// The id, which the app or its server chose: 1 to 128 of `A–Z a–z 0–9 . _ : -`.
    public var id: String
    /// The app; required when several share the gateway.
    public var app: AppName?
    /// The user it belongs to.
    public var user: String?
    /// `ios`, `android`, `harmony`, `web`, or `x-` and a name of your own; by default the one that its tokens agree on.
    public var platform: String?
    /// Its tokens, one of each service and kind.
    public var tokens: [Token]
    /// Its tags, at most 100.
    public var tags: [String]
    /// Its language tag, such as `fa-IR`.
    public var locale: String?
    /// The version of the app.
    public var appVersion: String?
    /// Its time zone, such as `Asia/Tehran`.
    public var timeZone: String?
    /// Other attributes, such as `os_version`: texts, numbers and Booleans; at most 50.
    public var attributes: JSONObject
    /// The time when the app was last seen.
    public var lastSeen: Date?

    /// Makes a registration.
    public init(
        _ id: String,
        app: AppName? = nil,
        user: String? = nil,
        platform: String? = nil,
        tokens: [Token] = [],
        tags: [String] = [],
        locale: String? = nil,
        appVersion: String? = nil,
        timeZone: String? = nil,
        attributes: JSONObject = JSONObject(),
        lastSeen: Date? = nil
    ) {
        self.id = id
        self.app = app
        self.user = user
        self.platform = platform
        self.tokens = tokens
        self.tags = tags
        self.locale = locale
        self.appVersion = appVersion
        self.timeZone = timeZone
        self.attributes = attributes
        self.lastSeen = lastSeen
    }

    /// The registration in the form of the API, so that it is checked as every other one.
    var body: [UInt8] {
        var writer = JSONWriter(capacity: 512)
        writer.beginObject()
        writer.field("user", user)
        writer.field("platform", platform)
        writer.name("tokens")
        writer.beginObject()
        for token in tokens {
            writer.name(TokenSlot(token.token.service, token.kind).description)
            writer.beginObject()
            writer.field("token", token.token.value)
            if token.environment != .unknown { writer.field("environment", token.environment.rawValue) }
            writer.endObject()
        }
        writer.endObject()
        writer.name("tags")
        writer.beginArray()
        for tag in tags { writer.string(tag) }
        writer.endArray()
        writer.field("locale", locale)
        writer.field("app_version", appVersion)
        writer.field("time_zone", timeZone)
        if !attributes.isEmpty {
            writer.name("attributes")
            writer.object(attributes)
        }
        if let lastSeen {
            writer.name("last_seen")
            RFC3339.write(lastSeen, to: &writer)
        }
        writer.endObject()
        return writer.bytes
    }
}
