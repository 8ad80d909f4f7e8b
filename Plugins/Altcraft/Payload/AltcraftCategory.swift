package import ChaparCore

/// A category of a resource, as a subscription has it.
public struct CategoryData: Sendable, Hashable, Codable {
    /// Its name; a request uses only this and `active`.
    public var name: String?
    /// Its title; only in answers.
    public var title: String?
    /// Whether it is locked against change; only in answers.
    public var steady: Bool?
    /// Whether the subscription takes part in it; nil in a request leaves it to Altcraft.
    public var active: Bool?

    /// Makes a category.
    public init(name: String?, title: String? = nil, steady: Bool? = nil, active: Bool? = nil) {
        self.name = name
        self.title = title
        self.steady = steady
        self.active = active
    }

    init?(json: JSONValue) {
        guard let object = json.objectValue else { return nil }
        self.init(
            name: object["name"]?.stringValue,
            title: object["title"]?.stringValue,
            steady: object["steady"]?.boolValue,
            active: object["active"]?.boolValue
        )
    }

    package var json: JSONValue {
        .object(
            JSONObject.present([
                ("name", name.map { .string($0) }), ("title", title.map { .string($0) }),
                ("steady", steady.map { .bool($0) }), ("active", active.map { .bool($0) }),
            ])
        )
    }
}
