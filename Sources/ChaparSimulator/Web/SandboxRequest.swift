package import ChaparCore

/// A request to a simulated web service, in any version of HTTP.
package struct SandboxRequest: Sendable {
    /// The method, such as `POST`.
    package let method: String
    /// The path without the query.
    package let path: String
    /// The query after the question mark, undecoded; empty without one.
    package let query: String
    /// The header fields in the order received, names in lower case.
    package let headers: [HTTPHeader]
    /// The body.
    package let body: [UInt8]
    /// The number of the connection, never used twice by a simulator.
    package let connection: Int
    /// The stream on its connection; with HTTP/1.1 the request's number there.
    package let stream: Int
    /// Whether it came over HTTP/2.
    package let isHTTP2: Bool

    init(
        method: String,
        target: String,
        headers: [HTTPHeader],
        body: [UInt8] = [],
        connection: Int,
        stream: Int,
        isHTTP2: Bool
    ) {
        self.method = method
        let mark = target.firstIndex(of: "?")
        path = String(target[..<(mark ?? target.endIndex)])
        query = mark.map { String(target[target.index(after: $0)...]) } ?? ""
        self.headers = headers
        self.body = body
        self.connection = connection
        self.stream = stream
        self.isHTTP2 = isHTTP2
    }

    /// Returns the first value of a field.
    package func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}

extension SandboxRequest {
    /// Makes the request of an HTTP/2 stream from the part that has arrived.
    init(_ stream: HTTP2Stream, connection: Int) {
        self.init(
            method: stream.method,
            target: stream.path,
            headers: stream.headers,
            body: stream.body,
            connection: connection,
            stream: Int(stream.id),
            isHTTP2: true
        )
    }
}
