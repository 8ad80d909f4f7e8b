public import PushCore

/// The rules of a platform that a plugin of one's own sends to: what a ``Simulator`` of it answers.
///
/// One type serves the plugin's tests, and the commands `sandbox`, `demo` and `doctor` of every program that lists it
/// (`GatewayProgram(simulators:)`). It holds what the platform would hold; ``answer(_:)`` is called on one thread at a
/// time.
public protocol SimulatedService: AnyObject, Sendable {
    /// The kind of backend that sends to it; also the first step of its control paths, such as `/pager/`.
    var kind: BackendKind { get }
    /// A recipient that it takes messages for: the demonstration sends to it.
    var recipient: Recipient { get }
    /// How many messages it has taken, each id once where it knows repeats.
    var taken: Int { get }

    /// The keys of a backend's section that sends to it, beside `kind` and `ca_file`.
    ///
    /// - Parameter url: Where it listens, such as `https://127.0.0.1:8443`.
    /// - Returns: The keys with their values, as they stand in a configuration.
    func section(url: String) -> JSONObject

    /// Answers a request by the platform's rules; it must not block.
    func answer(_ request: SimulatedRequest) -> HTTPAnswer
}

/// A request as a simulated platform sees it, whichever version of HTTP it came by.
public struct SimulatedRequest: Sendable {
    /// The method, such as `POST`.
    public let method: String
    /// The path without the query.
    public let path: String
    /// What follows the question mark, undecoded; empty without one.
    public let query: String
    /// The header fields in the order received, names in lower case.
    public let headers: [HTTPHeader]
    /// The body.
    public let body: [UInt8]

    /// The first value of a field; the name is in lower case.
    public func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }

    /// The body as JSON; nil when it is none.
    public var json: JSONValue? { try? JSONValue(parsing: body) }
}
