import Foundation
public import ChaparCore

/// The meaning of an answer of IDPush for the action that was asked for.
public struct IDPushReply: Sendable, Hashable {
    /// The error; nil when the action is done.
    public let error: IDPushActionError?
    /// The server's answer: its JSON, else its text, else its bytes in base64; nil when it is empty.
    public let data: JSONValue?
    /// The player id that the answer carries, for ``IDPushAction/addDevice(token:)``.
    public let playerID: String?

    /// Reads an answer.
    ///
    /// - Parameters:
    ///   - status: The HTTP status.
    ///   - body: The body.
    ///   - action: The action that was asked for.
    ///   - acceptsAny2xx: Whether any 2xx is as good as 200.
    public init(status: Int, body: [UInt8], for action: IDPushAction, acceptsAny2xx: Bool = false) {
        let json = try? JSONValue(parsing: body)
        let data = json ?? Self.raw(body)
        let isHTTPSuccess = acceptsAny2xx ? (200..<300).contains(status) : status == 200
        guard isHTTPSuccess, json?.objectValue != nil, Self.isOne(json?["status"]) else {
            self.init(.invalidResponse, data)
            return
        }
        guard case .addDevice = action else {
            self.init(nil, data)
            return
        }
        guard let id = json?["player_id"]?.stringValue, !id.isEmpty else {
            self.init(.invalidResponse, data)
            return
        }
        self.init(nil, data, playerID: id)
    }

    init(_ error: IDPushActionError?, _ data: JSONValue?, playerID: String? = nil) {
        self.error = error
        self.data = data
        self.playerID = playerID
    }

    /// The server's sentence, when it gave one.
    public var message: String? { data?["message"]?.stringValue.map { String($0.prefix(300)) } }

    /// Returns whether a value is the number 1, as an integer or with a fraction of 0; neither a text nor a truth value
    /// is.
    private static func isOne(_ value: JSONValue?) -> Bool { value == .integer(1) || value == .double(1) }

    private static func raw(_ body: [UInt8]) -> JSONValue? {
        guard !body.isEmpty else { return nil }
        if let text = String(validating: body, as: UTF8.self) { return .string(text) }
        return .string(Data(body).base64EncodedString())
    }
}
