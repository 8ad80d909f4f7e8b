public import ChaparCore

/// An answer of Altcraft: the HTTP status and the body, when that could be read.
public struct ResponseWithHttp: Sendable, Hashable, Codable {
    /// The HTTP status.
    public var httpCode: Int?
    /// The body; nil when it was empty or no JSON object.
    public var response: Response?

    private enum CodingKeys: String, CodingKey {
        case httpCode = "http_code"
        case response
    }

    /// Makes an answer.
    public init(httpCode: Int?, response: Response?) {
        self.httpCode = httpCode
        self.response = response
    }

    /// The answer as events show it.
    public var json: JSONObject {
        ["http_code": httpCode.map { .integer(Int64($0)) } ?? .null, "response": response?.json ?? .null]
    }
}

/// The body of an answer.
///
/// It is read once for each answer of Altcraft's pixel host, and reading accepts missing members.
/// `AltcraftRejections.swift` has the meanings. The names of the type and its fields are the SDK's.
public struct Response: Sendable, Hashable, Codable {
    /// Altcraft's own code, 0 for success.
    public var error: Int?
    /// The error, in Altcraft's words.
    public var errorText: String?
    /// The profile; nil after an asynchronous request, or when there is none.
    public var profile: ProfileData?

    private enum CodingKeys: String, CodingKey {
        case error
        case errorText = "error_text"
        case profile
    }

    /// Makes a body.
    public init(error: Int? = nil, errorText: String? = nil, profile: ProfileData? = nil) {
        self.error = error
        self.errorText = errorText
        self.profile = profile
    }

    /// Reads a body; nil when it is no JSON object.
    ///
    /// A text that is neither JSON nor a page becomes the error text.
    init?(_ body: [UInt8]) {
        if let object = (try? JSONValue(parsing: body))?.objectValue {
            self.init(
                error: object["error"]?.integerValue.map { Int(clamping: $0) },
                errorText: object["error_text"]?.stringValue,
                profile: object["profile"].flatMap(ProfileData.init)
            )
            return
        }
        let text = String(decoding: body.prefix(300), as: UTF8.self)
        let isText = !text.allSatisfy(\.isWhitespace) && !text.contains { "<{[\u{FFFD}".contains($0) }
        guard isText else { return nil }
        self.init(errorText: text)
    }

    package var json: JSONValue {
        var object: JSONObject = ["error": .integer(Int64(error ?? 0)), "error_text": .string(errorText ?? "")]
        if let profile { object["profile"] = profile.json }
        return .object(object)
    }
}

/// A profile in an answer of Altcraft.
///
/// Part of a ``Response``, read for apps and for the status of a subscription. Fields that are missing or of another
/// type are nil: a profile is never an error.
public struct ProfileData: Sendable, Hashable, Codable {
    /// Its id.
    public var id: String?
    /// Its status.
    public var status: String?
    /// Whether it is for tests.
    public var isTest: Bool?
    /// The push subscription that the request was about; nil when there is none.
    public var subscription: SubscriptionData?

    private enum CodingKeys: String, CodingKey {
        case id
        case status
        case isTest = "is_test"
        case subscription
    }

    /// Makes a profile.
    public init(id: String? = nil, status: String? = nil, isTest: Bool? = nil, subscription: SubscriptionData? = nil) {
        self.id = id
        self.status = status
        self.isTest = isTest
        self.subscription = subscription
    }

    init?(_ json: JSONValue) {
        guard let object = json.objectValue else { return nil }
        self.init(
            id: object["id"]?.stringValue,
            status: object["status"]?.stringValue,
            isTest: object["is_test"]?.boolValue,
            subscription: object["subscription"].flatMap(SubscriptionData.init)
        )
    }

    package var json: JSONValue {
        .object(
            JSONObject.present([
                ("id", id.map { .string($0) }), ("status", status.map { .string($0) }),
                ("is_test", isTest.map { .bool($0) }), ("subscription", subscription?.json ?? .null),
            ])
        )
    }
}

/// A push subscription: one token of one provider in one profile.
public struct SubscriptionData: Sendable, Hashable, Codable {
    /// Its id, which is the push token itself.
    public var subscriptionId: String?
    /// Another id, which is no secret.
    public var hashId: String?
    /// The token service, such as `ios-apns`.
    public var provider: String?
    /// `subscribed`, `suspended` or `unsubscribed`.
    public var status: String?
    /// Its fields, the system's own among them.
    public var fields: [String: JSONValue]?
    /// Its categories.
    public var cats: [CategoryData]?

    private enum CodingKeys: String, CodingKey {
        case subscriptionId = "subscription_id"
        case hashId = "hash_id"
        case provider
        case status
        case fields
        case cats
    }

    /// Makes a subscription.
    public init(
        subscriptionId: String? = nil,
        hashId: String? = nil,
        provider: String? = nil,
        status: String? = nil,
        fields: [String: JSONValue]? = nil,
        cats: [CategoryData]? = nil
    ) {
        self.subscriptionId = subscriptionId
        self.hashId = hashId
        self.provider = provider
        self.status = status
        self.fields = fields
        self.cats = cats
    }

    init?(_ json: JSONValue) {
        guard let object = json.objectValue else { return nil }
        self.init(
            subscriptionId: object["subscription_id"]?.stringValue,
            hashId: object["hash_id"]?.stringValue,
            provider: object["provider"]?.stringValue,
            status: object["status"]?.stringValue,
            fields: object["fields"]?.objectValue.map {
                Dictionary(uniqueKeysWithValues: $0.map { ($0.name, $0.value) })
            },
            cats: object["cats"]?.arrayValue.map { $0.compactMap(CategoryData.init(json:)) }
        )
    }

    package var json: JSONValue {
        var sorted: JSONObject?
        if let fields {
            sorted = JSONObject()
            for (name, value) in fields.sorted(by: { $0.key < $1.key }) { sorted?[name] = value }
        }
        return .object(
            JSONObject.present([
                ("subscription_id", subscriptionId.map { .string($0) }), ("hash_id", hashId.map { .string($0) }),
                ("provider", provider.map { .string($0) }), ("status", status.map { .string($0) }),
                ("fields", sorted.map { .object($0) }), ("cats", cats.map { .array($0.map(\.json)) }),
            ])
        )
    }
}

extension ResponseWithHttp {
    /// Returns the answer for logs and events: it has a fingerprint instead of the push token, which is the
    /// subscription's id.
    public func redacted() -> ResponseWithHttp {
        var copy = self
        if let id = response?.profile?.subscription?.subscriptionId {
            copy.response?.profile?.subscription?.subscriptionId = Fingerprint.of(id)
        }
        return copy
    }

    /// The status of the subscription; nil when there is none.
    var status: SubscriptionStatus? {
        response?.profile?.subscription?.status.flatMap(SubscriptionStatus.init)
    }
}
