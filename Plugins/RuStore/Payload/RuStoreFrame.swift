internal import ChaparCore

/// The text of a request around its message, which differs between RuStore's two APIs.
///
/// In the direct API the token is a field of the message. In the universal API the token is beside the message, and so
/// are the project and the service token. So no part of a frame is ever logged or shown.
struct RuStoreFrame: Sendable {
    /// The text before the message's object.
    let opening: [UInt8]
    /// Whether the message's object stays open for the token.
    let holdsToken: Bool
    /// The bytes of a request that do not count against the limit.
    let uncounted: Int

    /// The most bytes that count: of the message in the direct API, of the request in the universal one.
    ///
    /// RuStore names 4,096 and does not say what it counts.
    static let limit = 4096

    var isUniversal: Bool { !holdsToken }

    /// Text before and after a target.
    typealias Surroundings = (opening: StaticString, closing: StaticString)

    private static let directToken: Surroundings = (#","token":""#, #""}}"#)
    private static let universalToken: Surroundings = (#","tokens":{"rustore":[""#, #""]}}"#)
    private static let topic: Surroundings = (#","topic":""#, #""}"#)

    /// The direct API: `{"message":{…,"token":"…"}}`.
    static let direct: RuStoreFrame = {
        let opening = Array(#"{"message":"#.utf8)
        return RuStoreFrame(opening: opening, holdsToken: true, uncounted: opening.count + 1)
    }()

    /// Makes the frame of the universal API: `{"providers":{"rustore":{…}},"message":{…},"tokens":{"rustore":["…"]}}`.
    static func universal(projectID: String, serviceToken: Secret) -> RuStoreFrame {
        var writer = JSONWriter(capacity: 256)
        writer.beginObject()
        writer.name("providers")
        writer.beginObject()
        writer.name("rustore")
        writer.beginObject()
        writer.field("project_id", projectID)
        writer.field("auth_token", serviceToken.reveal())
        writer.endObject()
        writer.endObject()
        writer.name("message")
        return RuStoreFrame(opening: writer.bytes, holdsToken: false, uncounted: 0)
    }

    func surroundings(_ target: RuStoreTarget) -> Surroundings {
        target.isTopic ? Self.topic : holdsToken ? Self.directToken : Self.universalToken
    }
}
