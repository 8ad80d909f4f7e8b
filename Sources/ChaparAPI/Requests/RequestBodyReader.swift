internal import ChaparDelivery
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore

/// The reader of a request's body, within the limits of size, memory and time.
///
/// Called by the endpoints once the caller is authenticated. Beyond a limit it stops reading and throws the problem to
/// answer with; it never keeps a part of a body.
struct RequestBodyReader: Sendable {
    /// The longest time for a body after its head.
    static let deadline = Duration.seconds(60)

    let admission: Admission
    /// The caller and the peer for whom memory is reserved.
    let payer: Admission.Payer
    /// The largest body that is accepted here, in bytes.
    let limit: Int
    /// The largest body of the API, in bytes.
    private let largest: Int

    /// - Parameters:
    ///   - admission: The limits of the memory of all bodies.
    ///   - scope: The request's scope.
    ///   - limit: The largest body, if it is smaller than the configured one.
    init(admission: Admission, _ scope: RequestScope, limit: Int = .max) {
        self.admission = admission
        payer = scope.payer
        largest = scope.snapshot.server.maximumBodyBytes
        self.limit = min(limit, largest)
    }

    /// Passes the whole body to `use`; its memory stays reserved until `use` returns.
    ///
    /// For a body with a declared length the memory is reserved before the first byte is read.
    func withBody<Answer>(
        of request: Request,
        _ use: ([UInt8]) async throws(Problem) -> Answer
    ) async throws(Problem) -> Answer {
        let declared = request.headers[.contentLength].flatMap { Int($0) }.map { max(0, $0) }
        if let declared, declared > limit { throw .tooLarge(limit) }
        var reserved = declared ?? min(limit, Admission.smallBody)
        try admission.reserve(bytes: reserved, payer: payer, largest: largest)
        defer { admission.release(bytes: reserved, payer: payer) }
        let body = try await collect(request.body, declared, &reserved)
        return try await use(body)
    }

    /// Reserves more memory for a body without a declared length.
    private func grow(_ reserved: inout Int, to bytes: Int) throws(Problem) {
        let more = min(limit, max(bytes, 2 * reserved))
        try admission.reserve(bytes: more, payer: payer, largest: largest)
        admission.release(bytes: reserved, payer: payer)
        reserved = more
    }

    private func collect(
        _ body: RequestBody,
        _ declared: Int?,
        _ reserved: inout Int
    ) async throws(Problem) -> [UInt8] {
        var bytes: [UInt8] = []
        let start = ContinuousClock.now
        do {
            for try await part in body {
                if bytes.isEmpty { bytes.reserveCapacity(declared ?? part.readableBytes) }
                let count = bytes.count + part.readableBytes
                guard count <= limit else { throw Problem.tooLarge(limit) }
                if count > reserved { try grow(&reserved, to: count) }
                bytes.append(contentsOf: part.readableBytesView)
                if bytes.count == declared { continue }  // The end follows at once.
                guard start.duration(to: .now) < Self.deadline else { throw Problem.bodyTimeout }
            }
        } catch let problem as Problem {
            throw problem
        } catch {
            throw Problem.incomplete
        }
        if let declared, bytes.count < declared { throw Problem.incomplete }
        return bytes
    }

    /// Requires that a request declares its body as JSON.
    ///
    /// Browsers send a preflight request before this type goes to another site.
    ///
    /// With `orPatch`, the type of a JSON merge patch (RFC 7396) is accepted as well.
    static func requireJSON(_ fields: HTTPFields, orPatch: Bool = false) throws(Problem) {
        try requireJSON(type: fields[.contentType], orPatch: orPatch)
    }

    /// Requires that a content type is JSON.
    static func requireJSON(type: String?, orPatch: Bool = false) throws(Problem) {
        guard let type else { throw .notJSONType }
        if type == "application/json" { return }
        let essence = type.prefix { $0 != ";" }.lowercased()
        let name = essence.filter { $0 != " " }
        guard name == "application/json" || orPatch && name == "application/merge-patch+json" else {
            throw .notJSONType
        }
    }
}
