internal import ChaparCore
internal import ChaparSimulator
internal import Crypto
internal import Foundation
internal import Synchronization

/// The answers of one simulated push service: every request is checked as strictly as the RFCs and the service allow.
final class WebPushHandler: SandboxHandler {
    private static let mostBodyBytes = 4_096
    private static let urgencies = ["very-low", "low", "normal", "high"]

    private let service: WebPushService
    private let state: WebPushState
    /// The origin of the listener, which `aud` must name; known once it listens.
    private let origin: @Sendable () -> String

    init(_ service: WebPushService, _ state: WebPushState, origin: @escaping @Sendable () -> String) {
        self.service = service
        self.state = state
        self.origin = origin
    }

    func subject(of request: SandboxRequest) -> SandboxSubject {
        SandboxSubject(token: service.id(of: request), topic: request.header("topic"))
    }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        service.answer(fault, at: now)
    }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        do throws(WebPushFault) {
            return SandboxReply(answer: try accept(request, at: now))
        } catch {
            state.withValues { values in
                values.counters.refused[error.refusal.name, default: 0] += 1
                if error.refusal == .undecryptable { values.counters.undecryptable += 1 }
            }
            return SandboxReply(answer: service.answer(error.refusal))
        }
    }

    private func accept(_ request: SandboxRequest, at now: Date) throws(WebPushFault) -> SandboxAnswer {
        guard let id = service.id(of: request) else { throw WebPushFault(.notFound) }
        guard request.method == "POST" else { throw WebPushFault(.notPosted) }
        let life = try checkFields(request)
        let vapid = try WebPushVAPID(request.header("authorization"), origin: origin(), isApple: service == .apple, now)
        let place = WebPushPlace(service: service, id: id)
        let device = try device(at: place)
        if let key = device.applicationServerKey, key != vapid.publicKey { throw WebPushFault(.otherKey) }
        try refuseMagic(place)
        var text: String?
        if !request.body.isEmpty {
            guard let plain = device.decrypt(request.body) else { throw WebPushFault(.undecryptable) }
            text = String(decoding: plain, as: UTF8.self)
        }
        let number = state.withValues { values -> Int in
            let number = values.next
            values.next += 1
            values.counters.accepted += 1
            guard values.inbox.count < WebPushState.capacity else { return number }
            values.inbox.append(
                WebPushDelivery(
                    number: number,
                    service: service,
                    id: id,
                    text: text,
                    bodyBytes: request.body.count,
                    header: Base64URL.encode(request.body.prefix(86)),
                    timeToLive: life,
                    urgency: request.header("urgency"),
                    topic: request.header("topic"),
                    subject: vapid.subject,
                    tokenEnd: vapid.end,
                    token: vapid.token,
                    applicationServerKey: Base64URL.encode(vapid.publicKey),
                    acceptedAt: now
                )
            )
            return number
        }
        return accepted(number, life: life)
    }

    private func accepted(_ number: Int, life: Int) -> SandboxAnswer {
        var headers = [HTTPHeader("location", "\(origin())/m/message-\(number)"), HTTPHeader("ttl", "\(life)")]
        if service == .apple { headers.append(HTTPHeader("apns-id", "message-\(number)")) }
        return SandboxAnswer(status: 201, headers: headers)
    }

    private func device(at place: WebPushPlace) throws(WebPushFault) -> WebPushDevice {
        let found = state.withValues { values -> WebPushDevice? in
            if let device = values.devices[place] { return device }
            guard state.takesAny else { return nil }
            let device = WebPushDevice(place.id)
            if values.devices.count < WebPushState.capacity { values.devices[place] = device }
            return device
        }
        guard let found else { throw WebPushFault(.unknown) }
        if found.isGone { throw WebPushFault(.gone) }
        return found
    }

    private func refuseMagic(_ place: WebPushPlace) throws(WebPushFault) {
        guard let magic = WebPushMagicID(place.id) else { return }
        let isDue = state.withValues { values in !magic.isOnce || values.warned.insert(place).inserted }
        if isDue { throw WebPushFault(magic.refusal) }
    }

    /// Checks the fields, and returns `TTL`.
    private func checkFields(_ request: SandboxRequest) throws(WebPushFault) -> Int {
        guard let text = request.header("ttl") else { throw WebPushFault(.noTTL) }
        guard let life = Int(text), life >= 0, text.utf8.allSatisfy({ (48...57).contains($0) }) else {
            throw WebPushFault(.badTTL)
        }
        if let urgency = request.header("urgency"), !Self.urgencies.contains(urgency) {
            throw WebPushFault(.badUrgency)
        }
        if let topic = request.header("topic"), !isTopic(topic) { throw WebPushFault(.badTopic) }
        for name in ["crypto-key", "encryption"] where request.header(name) != nil { throw WebPushFault(.oldHeaders) }
        guard request.body.count <= Self.mostBodyBytes else { throw WebPushFault(.tooLarge) }
        let encoding = request.header("content-encoding")
        guard encoding == (request.body.isEmpty ? nil : "aes128gcm") else { throw WebPushFault(.badEncoding) }
        if service == .wns {
            guard request.header("x-wns-cache-policy") == (life == 0 ? "no-cache" : "cache") else {
                throw WebPushFault(.cachePolicy)
            }
        }
        return life
    }

    private func isTopic(_ text: String) -> Bool {
        // Apple decodes it, and no base64 has one character more than a multiple of four.
        return WebPushService.isBase64URL(text) && (1...32).contains(text.utf8.count)
            && (service != .apple || text.utf8.count % 4 != 1)
    }
}

/// A refusal as an error.
struct WebPushFault: Error {
    let refusal: WebPushRefusal

    init(_ refusal: WebPushRefusal) { self.refusal = refusal }
}

/// The VAPID token of a request (RFC 8292), checked.
struct WebPushVAPID {
    /// The furthest that `exp` may lie in the future, in seconds.
    private static let longestLife: Double = 86_400

    let publicKey: [UInt8]
    let subject: String
    let end: Int64
    let token: String

    init(_ field: String?, origin: String, isApple: Bool, _ now: Date) throws(WebPushFault) {
        func fault(_ words: String) -> WebPushFault { WebPushFault(.badVAPID(words)) }
        guard let field, field.lowercased().hasPrefix("vapid ") else { throw WebPushFault(.noVAPID) }
        var parts: [String: String] = [:]
        for part in field.dropFirst("vapid ".count).split(separator: ",") {
            let halves = part.split(separator: "=", maxSplits: 1)
            guard halves.count == 2 else { throw fault("A part of the field has no value") }
            parts[halves[0].trimmingCharacters(in: .whitespaces)] = halves[1].trimmingCharacters(in: .whitespaces)
        }
        guard let text = parts["t"], let written = parts["k"] else { throw WebPushFault(.noVAPID) }
        guard let octets = Base64URL.decode(written), octets.count == 65,
            let key = try? P256.Signing.PublicKey(x963Representation: octets)
        else { throw fault("k is no public key of P-256") }
        let pieces = text.split(separator: ".", omittingEmptySubsequences: false)
        guard pieces.count == 3, let header = Base64URL.decode(pieces[0]), let claims = Base64URL.decode(pieces[1]),
            let signature = Base64URL.decode(pieces[2]), signature.count == 64
        else { throw fault("t is no JWT") }
        guard let header = try? JSONValue(parsing: header), header["alg"]?.stringValue == "ES256",
            header["typ"]?.stringValue ?? "JWT" == "JWT"
        else { throw fault("The JWT is not of ES256") }
        guard let claims = try? JSONValue(parsing: claims) else { throw fault("The claims are no JSON") }
        guard claims["aud"]?.stringValue == origin else { throw fault("aud is not \(origin)") }
        guard let end = claims["exp"]?.integerValue else { throw fault("exp is no number") }
        let left = Double(end) - now.timeIntervalSince1970
        guard left > 0 else { throw fault("The JWT has expired") }
        guard left <= Self.longestLife else { throw fault("exp is more than 24 hours ahead") }
        let subject = claims["sub"]?.stringValue ?? ""
        guard subject.hasPrefix("mailto:") || subject.hasPrefix("https:") else {
            throw fault("sub is neither mailto: nor https:")
        }
        if isApple, subject.contains(" ") || subject.hasSuffix("@localhost") { throw fault("sub is no contact") }
        guard let made = try? P256.Signing.ECDSASignature(rawRepresentation: signature),
            key.isValidSignature(made, for: Array("\(pieces[0]).\(pieces[1])".utf8))
        else { throw fault("The signature does not fit") }
        publicKey = octets
        self.subject = subject
        self.end = end
        token = text
    }
}
