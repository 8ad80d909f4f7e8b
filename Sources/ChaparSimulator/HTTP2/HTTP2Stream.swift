package import ChaparCore

/// A request as it arrives, and the part of its answer that is not sent yet.
package final class HTTP2Stream {
    /// The most bytes of a request body that are kept; a part that would exceed it is dropped.
    static let maximumBody = 1 << 20

    /// The stream's number on its connection.
    package let id: Int32
    /// The value of `:method`.
    package private(set) var method = ""
    /// The value of `:path`.
    package private(set) var path = ""
    /// All fields except the pseudo fields, in the order received.
    package private(set) var headers: [HTTPHeader] = []
    /// The size of the header list as RFC 9113 (section 10.5.1) counts it.
    package private(set) var headerListSize = 0
    /// The body received up to now.
    package private(set) var body: [UInt8] = []
    /// Whether no answer will be sent: refused, reset, or above a `GOAWAY`'s last stream.
    var isAbandoned = false
    /// Whether an answer was passed on.
    var isAnswered = false
    /// Whether the answer's body is held back after its headers.
    var isHoldingBody = false
    /// The answer's body.
    var answerBody: [UInt8] = []
    /// The service's data about the request, from ``SandboxHTTP2Peer/received(_:)`` until the answer.
    package var attachment: (any Sendable)?
    private var sentBytes = 0

    init(id: Int32) {
        self.id = id
        headers.reserveCapacity(10)
    }

    /// Whether the whole answer body was sent.
    var isBodySent: Bool { sentBytes == answerBody.count }

    /// Returns the next bytes of the answer.
    func nextPart(upTo length: Int) -> ArraySlice<UInt8> {
        let part = answerBody[sentBytes..<min(answerBody.count, sentBytes + length)]
        sentBytes = part.endIndex
        return part
    }

    func add(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
        headerListSize += name.count + value.count + 32
        let text = String(decoding: value, as: UTF8.self)
        guard name.first == UInt8(ascii: ":") else {
            headers.append(HTTPHeader(String(decoding: name, as: UTF8.self), text))
            return
        }
        switch name.count {
        case 5: path = text
        case 7 where name[1] == UInt8(ascii: "m"): method = text
        default: break
        }
    }

    func append(body bytes: UnsafeBufferPointer<UInt8>) {
        guard body.count + bytes.count <= Self.maximumBody else { return }
        body.append(contentsOf: bytes)
    }
}
