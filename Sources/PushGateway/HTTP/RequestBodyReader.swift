internal import HTTPTypes
internal import Hummingbird
internal import NIOCore

/// Collects the body of a request, within the limits of size, memory and time.
///
/// Called by the endpoints once the caller is authenticated. Beyond a limit it stops reading and gives the problem to
/// answer with; it never keeps a part of a body.
struct RequestBodyReader: Sendable {
    /// How long a body may take from its head to its end.
    static let deadline = Duration.seconds(60)

    let admission: Admission
    /// Who pays for the memory.
    let payer: Admission.Payer
    /// The largest body that is taken here.
    let limit: Int
    /// The largest body of the API.
    private let largest: Int

    /// - Parameters:
    ///   - admission: What bounds the memory of all bodies.
    ///   - scope: The request's.
    ///   - limit: The largest body, if it is less than what the configuration allows.
    init(admission: Admission, _ scope: RequestScope, limit: Int = .max) {
        self.admission = admission
        payer = scope.payer
        largest = scope.snapshot.server.maximumBodyBytes
        self.limit = min(limit, largest)
    }

    /// Gives the whole body to `use`; its memory is set aside until `use` returns.
    ///
    /// For a body that says how long it is, before a byte of it is read.
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

    /// Sets more memory aside for a body that did not say how long it is.
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
            throw Self.incomplete
        }
        if let declared, bytes.count < declared { throw Self.incomplete }
        return bytes
    }

    private static let incomplete = Problem(
        .badRequest,
        "body_incomplete",
        "The body is not complete",
        detail: "The connection ended before the body did."
    )

    /// Makes sure that a request says its body is JSON.
    ///
    /// Browsers ask before they send this type across sites.
    ///
    /// With `orPatch`, a JSON merge patch (RFC 7396) may say what it is.
    static func requireJSON(_ fields: HTTPFields, orPatch: Bool = false) throws(Problem) {
        try requireJSON(type: fields[.contentType], orPatch: orPatch)
    }

    /// Makes sure that a content type is JSON.
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
