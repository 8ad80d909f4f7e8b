internal import Foundation
import ChaparCore

/// Starts a trigger campaign for each recipient's profile, which is the only way to send through Altcraft.
///
/// "Accepted" means that the platform accepted the start, never that a device got a push. Sources: Altcraft's developer
/// guide, "Trigger launch (API call)", "Profile import + trigger campaign launch" and "API interaction", read 2026-11.
/// Neither call has a time to live: `timeout` of the import delays the start, and comes from overrides only.
final class AltcraftBatch: Sendable {
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
        let (matching, identifier): (AltcraftCampaignOptions.Matching, String)
        switch addressee.recipient {
        case .user(let user): (matching, identifier) = (options.matching, user)
        case .platformID(let id): (matching, identifier) = (.profileID, id)
        default:
            let detail =
                "A campaign is started for a user or a profile id, not for a \(addressee.recipient.form.rawValue)."
            return refuse("unsupported_recipient", detail)
        }
        // Neither call has a time to live, so it is checked before the start only.
        if request.remaining(now: time.now) == .over { return .refused(.expired) }
        if request.notification.isDryRun { return .accepted(Acceptance(isDryRun: true)) }
        let body = body(request.notification, addressee.language, matching, identifier)
        let headers = [
            HTTPHeader("authorization", "Bearer " + options.apiToken.reveal(), .literal),
            HTTPHeader("request-id", addressee.messageID.description, .literal),
        ]
        let path = options.base.path(options.call.path)
        do throws(HTTPFailure) {
            let answer = try await pool.send(HTTPCall(template, path: path, headers: headers, body: body.bytes))
            return AltcraftRejections.outcome(of: answer, now: time.now)
        } catch {
            return error.outcome(isRepeatHarmful: true, remark: "a repeat may start the campaign twice")
        }
    }

    /// Returns the body of the request, with the texts in the members that the template reads, as `{apicontent.title}`.
    private func body(
        _ notification: PushNotification,
        _ language: String?,
        _ matching: AltcraftCampaignOptions.Matching,
        _ identifier: String
    ) -> JSONValue {
        var content = JSONObject.present([
            ("title", notification.title.map { .string($0.resolved(for: language)) }),
            ("subtitle", notification.subtitle.map { .string($0.resolved(for: language)) }),
            ("body", notification.body.map { .string($0.resolved(for: language)) }),
            ("image", notification.image.map { .string($0) }), ("link", notification.clickURL.map { .string($0) }),
        ])
        for (name, value) in notification.data where content[name] == nil { content[name] = value }
        var body: JSONObject = ["matching": .string(matching.rawValue)]
        body[options.call == .start ? "id" : "trigger_id"] = .integer(options.triggerID)
        if let parameter = matching.parameter {
            body[parameter] = .string(identifier)
        } else {
            body["field_name"] = .string(options.fieldName ?? "")
            body["field_value"] = .string(identifier)
        }
        if let resource = options.resourceID { body["resource_id"] = .integer(resource) }
        if options.call == .importAndStart {
            if let database = options.databaseID { body["db_id"] = .integer(database) }
            body["data"] = .object(profile(matching, identifier))
        }
        body["content"] = .object(content)
        for (name, value) in notification.overrides[AltcraftBackend.kind.rawValue] ?? JSONObject() {
            guard options.call.overrides[name] != nil else { continue }
            if let mine = body[name]?.objectValue, let theirs = value.objectValue {
                body[name] = .object(mine.merging(theirs))
            } else {
                body[name] = value
            }
        }
        return .object(body)
    }

    /// Returns the profile fields that an import writes, by their names in a database, where phone numbers are a list.
    private func profile(_ matching: AltcraftCampaignOptions.Matching, _ identifier: String) -> JSONObject {
        switch matching {
        case .email, .emailProfile: ["email": .string(identifier)]
        case .phone: ["phones": [.string(identifier)]]
        case .profileID: [:]
        case .custom: JSONObject(dictionaryLiteral: (options.fieldName ?? "", .string(identifier)))
        }
    }

    /// The connections.
    var status: HTTPPoolStatus { pool.status }

    func shutdown(grace: Duration) async { await pool.shutdown(grace: grace) }
}

extension AltcraftCampaignOptions.Call {
    /// The path of the call.
    var path: String {
        switch self {
        case .start: "/api/v1.1/campaigns/triggers/start/"
        case .importAndStart: "/api/v1.1/campaigns/triggers/import_and_start"
        }
    }

    /// The parameters that a message may set itself.
    var overrides: [String: ParameterKind] {
        let both: [String: ParameterKind] = [
            "content": .object, "custom_data": .object, "attach": .list, "resource_id": .number,
        ]
        let own: [String: ParameterKind] =
            switch self {
            case .start: ["subscription_filter": .object]
            case .importAndStart:
                [
                    "data": .object, "skip_triggers": .flag, "skip_invalid_subscriptions": .flag, "detect_geo": .flag,
                    "timeout": .span,
                ]
            }
        return both.merging(own) { $1 }
    }
}
