public import ChaparCore

/// The rules of a custom platform: the answers of its ``Simulator``.
///
/// One type serves the plugin's tests, and the commands `sandbox`, `demo` and `doctor` of every program that lists it
/// (`GatewayProgram(simulators:)`). It holds the platform's state; ``answer(_:)`` is called on one thread at a time.
public protocol SimulatedService: AnyObject, Sendable {
    /// The kind of backend that sends to it; also the first step of its control paths, such as `/pager/`.
    var kind: BackendKind { get }
    /// A recipient that it accepts messages for: the demonstration sends to it.
    var recipient: Recipient { get }
    /// The number of messages it has accepted; where it recognises repeats, each id counts once.
    var taken: Int { get }

    /// Returns the keys of a backend's section that sends to it, beside `kind` and `ca_file`.
    ///
    /// - Parameter url: Its address, such as `https://127.0.0.1:8443`.
    /// - Returns: The keys with their values, as they stand in a configuration.
    func section(url: String) -> JSONObject

    /// Answers a request by the platform's rules; it must not block.
    func answer(_ request: SimulatedRequest) -> HTTPAnswer
}

/// A request to a simulated platform, in any version of HTTP.
public struct SimulatedRequest: Sendable {
    /// The method, such as `POST`.
    public let method: String
    /// The path without the query.
    public let path: String
    /// The query after the question mark, undecoded; empty without one.
    public let query: String
    /// The header fields in the order received, names in lower case.
    public let headers: [HTTPHeader]
    /// The body.
    public let body: [UInt8]

    /// Returns the first value of a field; the name is in lower case.
    public func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }

    /// The body as JSON; nil when it is none.
    public var json: JSONValue? { try? JSONValue(parsing: body) }
}
