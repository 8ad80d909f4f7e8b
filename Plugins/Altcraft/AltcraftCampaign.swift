internal import Foundation
import PushCore

/// Starts a trigger campaign for one profile after another: the one way in which Altcraft can be asked to send.
///
/// "Accepted" says that the platform took the start, never that somebody got a push. Source: Altcraft's guide to the user API
/// (`campaigns/triggers/import_and_start`), read 2026-08; what the answer holds besides `error` is not documented.
final class AltcraftCampaign: Sendable {
    private let options: AltcraftCampaignOptions
    private let pool: any HTTPPool
    private let time: any TimeSource
    private let template: HTTPCallTemplate

    init(
        _ options: AltcraftCampaignOptions,
        common: CommonBackendOptions,
        context: BackendContext
    ) throws(HTTPPoolError) {
        self.options = options
        time = context.time
        var configuration = HTTPPoolConfiguration(endpoint: options.base.endpoint, version: .http1)
        common.apply(to: &configuration)
        configuration.endpoint = options.base.endpoint
        pool = try context.http.pool(configuration)
        template = HTTPCallTemplate(
            method: "POST",
            headers: [HTTPHeader("content-type", "application/json"), HTTPHeader("accept", "application/json")],
            deadline: common.timeout
        )
    }

    /// What no template gets.
    static func check(_ notification: PushNotification) -> PayloadCheck {
        let dropped: [(isUsed: Bool, field: String)] = [
            (notification.badge != nil, "badge"), (notification.sound != nil, "sound"),
            (notification.category != nil, "category"), (!notification.actions.isEmpty, "actions"),
            (notification.collapseID != nil, "collapse_id"), (notification.isSilent, "silent"),
        ]
        return PayloadCheck(
            warnings: dropped.filter(\.isUsed).map { _, field in
                PushWarning(
                    pointer: "#/content/\(field)",
                    code: "not_supported",
                    detail: "The template of the campaign decides about \(field); this value is dropped."
                )
            }
        )
    }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        await withTaskGroup(of: Void.self) { tasks in
            var count = 0
            for (index, request) in requests.enumerated() {
                for (place, addressee) in request.recipients.enumerated() {
                    count += 1
                    if count > 64 { await tasks.next() }
                    tasks.addTask {
                        let outcome = await self.start(request, addressee)
                        report([DeliveryReport(request: index, recipient: place, outcome: outcome)])
                    }
                }
            }
        }
    }

    private func start(_ request: PushRequest, _ addressee: Addressee) async -> DeliveryOutcome {
        func refuse(_ reason: String, _ detail: String) -> DeliveryOutcome {
            .refused(Refusal(.message, reason: reason, detail: detail, advice: .never))
        }
        let (matching, identifier): (String, String)
        switch addressee.recipient {
        case .user(let user): (matching, identifier) = (options.matching, user)
        case .platformID(let id): (matching, identifier) = ("profile_id", id)
        default:
            let detail =
                "A campaign is started for a user or a profile id, not for a \(addressee.recipient.form.rawValue)."
            return refuse("unsupported_recipient", detail)
        }
        var seconds: Int64?
        switch request.expiration {
        case .at(let end)?:
            seconds = end.subtracting(clamping: Int64(clamping: time.now.timeIntervalSince1970))
            if let seconds, seconds <= 0 { return refuse("expired", "Its time to live has ended.") }
        case .immediately?: seconds = 0
        case nil: seconds = nil
        }
        if request.notification.isDryRun { return .accepted(Acceptance(isDryRun: true)) }
        let body = body(request.notification, addressee.language, matching, identifier, seconds)
        let headers = [
            HTTPHeader("authorization", "Bearer " + options.apiToken.reveal(), .literal),
            HTTPHeader("request-id", addressee.messageID.description, .literal),
        ]
        let path = options.base.path("/api/v1.1/campaigns/triggers/import_and_start")
        do throws(HTTPFailure) {
            return Self.outcome(
                try await pool.send(HTTPCall(template, path: path, headers: headers, body: body.bytes)),
                now: time.now
            )
        } catch {
            return error.outcome(isRepeatHarmful: true, remark: "a repeat may start the campaign twice")
        }
    }

    /// The request: the texts stand where the template names them, as `{apicontent.title}`.
    private func body(
        _ notification: PushNotification,
        _ language: String?,
        _ matching: String,
        _ identifier: String,
        _ seconds: Int64?
    ) -> JSONValue {
        var content = JSONObject.present([
            ("title", notification.title.map { .string($0.resolved(for: language)) }),
            ("subtitle", notification.subtitle.map { .string($0.resolved(for: language)) }),
            ("body", notification.body.map { .string($0.resolved(for: language)) }),
            ("image", notification.image.map { .string($0) }), ("link", notification.clickURL.map { .string($0) }),
        ])
        for (name, value) in notification.data where content[name] == nil { content[name] = value }
        var body: JSONObject = ["trigger_id": .integer(options.triggerID), "matching": .string(matching)]
        if let database = options.databaseID { body["db_id"] = .integer(database) }
        let field = matching == "custom" ? options.fieldName ?? "" : AltcraftSigner.member(of: matching)
        if matching == "custom" {
            body["field_name"] = .string(field)
            body["field_value"] = .string(identifier)
        } else {
            body[field] = .string(identifier)
        }
        var data = JSONObject()
        if matching != "profile_id" { data[field] = .string(identifier) }
        body["data"] = .object(data)
        body["content"] = .object(content)
        if let seconds, seconds > 0 { body["timeout"] = .integer(seconds) }
        if let overrides = notification.overrides[AltcraftBackend.kind.rawValue] {
            for name in ["custom_data", "skip_triggers", "content"] {
                guard let value = overrides[name] else { continue }
                if name == "content", let more = value.objectValue {
                    body[name] = .object(content.merging(more))
                } else {
                    body[name] = value
                }
            }
        }
        return .object(body)
    }

    // MARK: Outcomes

    static func outcome(_ answer: HTTPAnswer, now: Date) -> DeliveryOutcome {
        let response = Response(answer.body)
        if (200..<300).contains(answer.status), response == nil, !answer.body.isEmpty {
            // Whoever said that, it was not Altcraft's API, and the start may have reached it all the same.
            let detail = "The answer is no JSON object; a repeat may start the campaign twice."
            return .unknown(UnknownOutcome(reason: "bad_answer", detail: detail, isRepeatHarmful: true))
        }
        let error = response?.error ?? 0
        if (200..<300).contains(answer.status), error == 0 {
            return .accepted(Acceptance(isVerdictPending: false, status: answer.status))
        }
        // The platform may put its own number under a success.
        let code = (200..<300).contains(answer.status) ? error : answer.status
        func refuse(_ kind: Refusal.Kind, _ reason: String, _ advice: Refusal.Advice) -> DeliveryOutcome {
            let text = response?.errorText.map { String($0.prefix(300)) }
            return .refused(Refusal(kind, reason: reason, detail: text, status: answer.status, advice: advice))
        }
        let pause = answer.retryAfter(now: now)
        switch code {
        case 401, 403: return refuse(.account, "unauthorized", .parkBackend)
        case 402: return refuse(.account, "tariff_limit", .never)
        case 408: return refuse(.platform, "timeout", .retry(after: pause))
        case 429: return refuse(.platform, "rate_limited", .slowBackend(after: pause))
        case 500...599: return refuse(.platform, "unavailable", .retry(after: pause))
        case 300..<400: return refuse(.account, "redirected", .parkBackend)
        default: return refuse(.message, "bad_request", .never)
        }
    }

    /// The connections.
    var status: HTTPPoolStatus { pool.status }

    func shutdown(grace: Duration) async { await pool.shutdown(grace: grace) }
}
