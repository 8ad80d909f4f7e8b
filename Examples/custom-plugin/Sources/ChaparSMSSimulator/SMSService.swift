public import ChaparCore
public import ChaparSimulator
import Synchronization

/// The platform SMS on this machine: small enough to be read, strict enough to fail a backend that breaks its rules.
///
/// Addresses that begin with `gone-` are unknown, with `out-` have opted out, with `fast-` are too many.
public final class SMSService: SimulatedService {
    /// The key that it takes.
    public static let key = "a-key-of-the-account"
    private let ids = Mutex<Set<String>>([])

    /// Makes a platform that has taken nothing.
    public init() {}

    /// The kind of backend that sends to it.
    public var kind: BackendKind { "sms" }
    /// An address that it takes messages for.
    public var recipient: Recipient { .token("address-1", service: TokenService(rawValue: "x-sms")) }
    /// How many messages it has taken, each id once.
    public var taken: Int { ids.withLock { $0.count } }

    /// The keys of a section that sends to it.
    public func section(url: String) -> JSONObject {
        ["url": .string(url + "/v1"), "key": .string(Self.key)]
    }

    /// Answers by the platform's rules.
    public func answer(_ request: SimulatedRequest) -> HTTPAnswer {
        guard request.method == "POST", request.path == "/v1/messages" else { return HTTPAnswer(status: 404) }
        guard request.header("authorization") == "Bearer \(Self.key)" else { return Self.refuse(401, "wrong_key") }
        guard let id = request.json?["id"]?.stringValue, let address = request.json?["to"]?.stringValue,
            let text = request.json?["text"]?.stringValue, !text.isEmpty
        else { return Self.refuse(422, "text_rejected") }
        if address.hasPrefix("gone-") { return Self.refuse(404, "unknown_address") }
        if address.hasPrefix("out-") { return Self.refuse(403, "opted_out") }
        if address.hasPrefix("fast-") { return Self.refuse(429, "too_fast", [HTTPHeader("retry-after", "1")]) }
        // An id that comes again is not sent again.
        ids.withLock { _ = $0.insert(id) }
        return HTTPAnswer(status: 200, body: JSONValue.object(["ref": .string("ref-\(id)")]).bytes)
    }

    private static func refuse(_ status: Int, _ word: String, _ fields: [HTTPHeader] = []) -> HTTPAnswer {
        HTTPAnswer(status: status, headers: fields, body: JSONValue.object(["error": .string(word)]).bytes)
    }
}
