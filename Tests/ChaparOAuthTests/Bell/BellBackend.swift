import Foundation
import ChaparCore
import ChaparOAuth

extension TokenService {
    /// The channels of Bell, which are addresses.
    static let bell = TokenService(rawValue: "x-bell")
}

/// A platform of the shape of WNS: OAuth, recipients that are addresses, XML, and a 200 that may mean "dropped".
///
/// A channel is `https://HOST.notify.bell.example/?token=…`. It takes a POST of `<toast>` with the fields `x-bell-type`,
/// `x-bell-ttl` (seconds) and `x-bell-tag`, and answers 200 with `x-bell-status`, 404, 406 with `Retry-After`, 410 or
/// others. The backend keeps every promise, but for the fault that a test plants.
struct BellBackend: PushBackend {
    static let domain = "notify.bell.example"
    static let login = HTTPBaseURL(HTTPEndpoint(host: "login.bell.example"), path: "/accesstoken.srf")
    static let maximumBytes = 5_000

    let kind: BackendKind = "bell"
    let audience = BackendAudience(services: [.bell])
    private let credentials: OAuth2ClientCredentials
    private let pools: HTTPPools
    private let time: any TimeSource
    private let fault: BellFault?
    private let template = HTTPCallTemplate(
        method: "POST",
        headers: [HTTPHeader("content-type", "text/xml"), HTTPHeader("x-bell-type", "bell/toast")]
    )

    init(id: String, secret: Secret, http: any HTTPTransport, time: any TimeSource, fault: BellFault? = nil)
        throws(HTTPPoolError)
    {
        credentials = try OAuth2ClientCredentials(
            tokenURL: Self.login,
            id: id,
            secret: secret,
            scope: Self.domain,
            covers: { fault == .anyHost || $0.isBelow(Self.domain) },
            http: http,
            time: time
        )
        let strategy = BellAuth(credentials: credentials, secret: secret, fault: fault)
        // Each pool has the endpoint of its calls.
        let configuration = HTTPPoolConfiguration(endpoint: Self.login.endpoint, version: .http1)
        pools = HTTPPools(AuthorizedTransport(http, strategy: strategy), configuration)
        self.time = time
        self.fault = fault
    }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        let started = time.now
        var calls: [HTTPPools.Call] = []
        var slots: [Slot] = []
        for (number, request) in requests.enumerated() {
            let remaining = request.remaining(now: started)
            for (index, to) in request.recipients.enumerated() {
                let slot = Slot(request: number, recipient: index)
                let body = body(request.notification, to.language)
                guard audience.contains(to.recipient), case .token(let token) = to.recipient else {
                    report([slot.report(.refused(Self.unsupported))])
                    continue
                }
                // A token of a request comes as its caller wrote it.
                guard let channel = channel(token) else {
                    report([slot.report(.refused(Self.badChannel(started)))])
                    continue
                }
                guard body.count <= Self.maximumBytes else {
                    report([slot.report(.refused(Self.tooLarge))])
                    continue
                }
                guard remaining != .over || fault == .sendsEnded else {
                    report([slot.report(.refused(.expired))])
                    continue
                }
                guard !request.notification.isDryRun else {
                    report([slot.report(.accepted(Acceptance(isDryRun: true)))])
                    continue
                }
                let headers = headers(fault == .newTag ? .random() : to.messageID, remaining)
                let call = HTTPCall(template, path: channel.path, headers: headers, body: body)
                calls.append(HTTPPools.Call(channel.endpoint, call))
                slots.append(slot)
            }
        }
        await pools.send(calls) { [slots] replies in
            report(replies.map { slots[$0.index].report(outcome(of: $0.result, since: started)) })
        }
    }

    func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        guard body(notification, nil).count > Self.maximumBytes else { return PayloadCheck() }
        let detail = "At most \(Self.maximumBytes) bytes."
        return PayloadCheck(faults: [Finding(pointer: "#/content/body", code: "too_large", detail: detail)])
    }

    func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken {
        guard let channel = channel(token) else { throw InvalidToken(.bell, "is no channel of Bell") }
        return DeviceToken(channel.url, service: .bell)
    }

    var health: BackendHealth { BackendHealth(pools.statuses) }

    func diagnose() async -> [Diagnosis] { [await credentials.diagnose()] }

    func shutdown(grace: Duration) async {
        await pools.shutdown(grace: grace)
        await credentials.shutdown(grace: grace)
    }
}

// MARK: Requests

extension BellBackend {
    /// A recipient's place in a send.
    private struct Slot {
        let request: Int
        let recipient: Int

        func report(_ outcome: DeliveryOutcome) -> DeliveryReport {
            DeliveryReport(request: request, recipient: recipient, outcome: outcome)
        }
    }

    private func channel(_ token: DeviceToken) -> HTTPAddress? {
        guard let address = HTTPAddress(url: token.value) else { return nil }
        return fault == .anyHost || address.endpoint.isBelow(Self.domain) ? address : nil
    }

    private func headers(_ id: MessageID, _ remaining: PushRequest.Remaining) -> [HTTPHeader] {
        var headers = [HTTPHeader("x-bell-tag", id.description, .literal)]
        switch remaining {
        case _ where fault == .noTimeToLive: break
        case .seconds(let left): headers.append(HTTPHeader("x-bell-ttl", "\(left)", .literal))
        case .now: headers.append(HTTPHeader("x-bell-ttl", "0"))
        case .platformDefault, .over: break
        }
        return headers
    }

    private func body(_ notification: PushNotification, _ language: String?) -> [UInt8] {
        let texts = [notification.title, notification.body].compactMap {
            $0?.resolved(for: fault == .oneLanguage ? nil : language)
        }
        let parts = texts.map { "<text>\(fault == .rawText ? $0 : Self.escaped($0))</text>" }
        return Array("<toast>\(parts.joined())</toast>".utf8)
    }

    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for character in text.unicodeScalars {
            switch character {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            default: escaped.unicodeScalars.append(character)
            }
        }
        return escaped
    }
}

// MARK: Outcomes

extension BellBackend {
    private static let unsupported = Refusal(
        .message,
        reason: "unsupported_recipient",
        detail: "Bell has no such address.",
        advice: .never
    )
    private static let tooLarge = Refusal(
        .message,
        reason: "too_large",
        detail: "The texts are too long for Bell.",
        advice: .never
    )

    private static func badChannel(_ started: Date) -> Refusal {
        Refusal(
            .token,
            reason: "bad_channel",
            detail: "The address is none that Bell gives out.",
            advice: .never,
            invalidation: Refusal.Invalidation(asOf: started, isCertain: false)
        )
    }

    private func outcome(of result: Result<HTTPAnswer, HTTPFailure>, since started: Date) -> DeliveryOutcome {
        let answer: HTTPAnswer
        switch result {
        case .failure(let failure): return failure.outcome()
        case .success(let found): answer = found
        }
        func refused(_ kind: Refusal.Kind, _ reason: String, _ detail: String, _ advice: Refusal.Advice) -> Refusal {
            Refusal(kind, reason: reason, detail: detail, status: answer.status, advice: advice)
        }
        switch (answer.status, answer.header("x-bell-status")) {
        case (200, "received"?): return .accepted(acceptance(answer))
        case (200, "dropped"?) where fault == .believesDropped: return .accepted(acceptance(answer))
        case (200, "dropped"?):
            return .refused(refused(.token, "dropped", "The person has turned messages off.", .never))
        case (400, _), (413, _): return .refused(refused(.message, "rejected", "Bell does not take it.", .never))
        case (401, _), (403, _):
            return .refused(refused(.account, "unauthorized", "Check client_id and client_secret.", .parkBackend))
        case (404, _), (410, _):
            var refusal = refused(.token, "gone", "The channel is gone.", .never)
            refusal.invalidation = Refusal.Invalidation(asOf: started, isCertain: true)
            return .refused(refusal)
        case (406, _):
            let pause = fault == .ignoresPause ? nil : answer.retryAfter(now: time.now)
            return .refused(refused(.platform, "throttled", "Bell asks for a pause.", .slowBackend(after: pause)))
        default:
            let detail = "Bell answered \(answer.status): it may have sent the message."
            return .unknown(UnknownOutcome(reason: "status_\(answer.status)", detail: detail))
        }
    }

    private func acceptance(_ answer: HTTPAnswer) -> Acceptance {
        Acceptance(platformID: answer.header("x-bell-msg-id"), status: answer.status)
    }
}
