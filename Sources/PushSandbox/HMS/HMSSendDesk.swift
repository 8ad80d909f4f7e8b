internal import Foundation
internal import PushCore

/// Processes one request to the push endpoint, by Huawei's rules and in their order.
struct HMSSendDesk {
    let settings: HMSSimulatorConfiguration
    let request: SandboxRequest
    let requestID: String
    let now: Date
    let receipts: HMSReceiptPlan
    /// How long the answer is held up.
    var delay: Duration = .zero

    init(
        settings: HMSSimulatorConfiguration,
        request: SandboxRequest,
        requestID: String,
        now: Date,
        receipts: HMSReceiptPlan
    ) {
        self.settings = settings
        self.request = request
        self.requestID = requestID
        self.now = now
        self.receipts = receipts
    }

    mutating func answer(_ call: HMSPushSite.Call, _ world: inout HMSWorld) throws(HMSCode) -> SandboxAnswer {
        switch call {
        case .send(let version, let id):
            world.counters.sends += 1
            let app = try admit(&world, needsJWT: version == 3)
            guard app.appID == id && version == 1 || app.projectID == id && version > 1 else { throw .wrongApp }
            if version == 3 { return try sendV3(app, &world) }
            return try send(app, &world)
        case .topic(let verb, let appID):
            let app = try admit(&world)
            guard app.appID == appID else { throw .wrongApp }
            return try changeTopic(verb, &world)
        case .deleteToken(let appID):
            let app = try admit(&world)
            guard app.appID == appID else { throw .wrongApp }
            guard let token = (try? JSONValue(parsing: request.body))?["token"]?.stringValue else {
                throw .parameter("token")
            }
            world.devices[token] = HMSDevice(appID: app.appID, state: .refused(reason: "tokenFormatError"))
            for name in world.topics.keys { world.topics[name]?.remove(token) }
            return success(&world)
        }
    }

    // MARK: Who asks

    private func admit(_ world: inout HMSWorld, needsJWT: Bool = false) throws(HMSCode) -> HMSSimulatorConfiguration.App
    {
        guard let field = request.header("authorization"), field.hasPrefix("Bearer ") else { throw .badToken }
        let token = String(field.dropFirst("Bearer ".count))
        if token.hasPrefix("eyJ") {
            if let refusal = settings.serviceAccount.refusal(of: token, at: now) { throw refusal }
            guard let app = settings.apps.first else { throw .badToken }
            return app
        }
        guard !needsJWT, let grant = world.grants[token], !grant.isRevoked,
            let app = settings.apps.first(where: { $0.appID == grant.appID })
        else { throw .badToken }
        guard grant.endsAt > now else { throw .tokenExpired }
        return app
    }

    // MARK: v1 and v2

    private mutating func send(
        _ app: HMSSimulatorConfiguration.App,
        _ world: inout HMSWorld
    ) throws(HMSCode) -> SandboxAnswer {
        let body = try HMSMessageRules.read(request.body, settings)
        if let flow = flow(body.tokens, &world) { return flow }
        try magic(body.tokens, &world)
        if let audience = body.audience {
            if !body.isValidation {
                record("", topic: audience, body, batch: 1, &world)
            } else {
                world.counters.validated += 1
            }
            return success(&world)
        }
        var refused: [(token: String, reason: String)] = []
        var good: [String] = []
        for token in body.tokens {
            if let reason = refusal(of: token, app, version: 1, world) {
                refused.append((token, reason))
            } else {
                good.append(token)
            }
        }
        guard !good.isEmpty else { throw .allTokensBad }
        if body.isValidation {
            world.counters.validated += good.count
        } else {
            for token in good { record(token, topic: "", body, batch: body.tokens.count, &world) }
        }
        return finish(refused, of: body.tokens.count, form: settings.partialForm, &world)
    }

    private func refusal(
        of token: String,
        _ app: HMSSimulatorConfiguration.App,
        version: Int,
        _ world: HMSWorld
    ) -> String? {
        if let device = world.devices[token] {
            if case .refused(let reason) = device.state { return reason }
            guard device.isHarmony == (version == 3) else { return "noRight" }
            return (device.appID ?? settings.apps.first?.appID) == app.appID ? nil : "noRight"
        }
        if settings.honoursMagicTokens, let magic = HMSMagicToken(token) {
            switch magic {
            case .dead: return "tokenFormatError"
            case .moved: return version == 3 ? nil : "noRight"
            default: return nil
            }
        }
        return settings.acceptsAnyToken ? nil : "tokenFormatError"
    }

    /// 503 when the app is over its quota of devices a second, or a magic token wants it.
    private func flow(_ tokens: [String], _ world: inout HMSWorld) -> SandboxAnswer? {
        var isOver = false
        if let limit = settings.devicesPerSecond {
            isOver = !world.takeQuota(max(1, tokens.count), perSecond: limit, at: now)
        }
        if settings.honoursMagicTokens {
            for token in tokens where HMSMagicToken(token) == .flowOnce {
                if world.magicSeen.insert(token) { isOver = true }
            }
        }
        guard isOver else { return nil }
        world.counters.answers["http_503", default: 0] += 1
        return FaultAnswer(503, retryAfter: settings.flowRetryAfter).plain()
    }

    private mutating func magic(_ tokens: [String], _ world: inout HMSWorld) throws(HMSCode) {
        guard settings.honoursMagicTokens else { return }
        for token in tokens {
            switch HMSMagicToken(token) {
            case .expiredOnce?: if world.magicSeen.insert(token) { throw .tokenExpired }
            case .slow?: delay = settings.magicDelay
            default: break
            }
        }
    }

    private func record(
        _ token: String,
        topic: String,
        _ body: HMSMessageRules.Accepted,
        batch: Int,
        _ world: inout HMSWorld
    ) {
        world.record(
            HMSDelivery(
                requestID: requestID,
                token: token,
                topic: topic,
                tag: body.tag,
                message: JSONValue.object(body.message).text,
                batch: batch,
                acceptedAt: now
            ),
            limit: settings.inboxLimit
        )
        guard receipts.url != nil, !token.isEmpty else { return }
        var status = 0
        if settings.honoursMagicTokens, case .receipt(let wanted)? = HMSMagicToken(token) { status = wanted }
        if let wanted = receipts.statuses[token] { status = wanted }
        world.owed.append(
            HMSReceiptSender.Status(
                token: token,
                requestID: requestID,
                biTag: body.biTag,
                appID: settings.apps.first?.appID ?? "",
                status: status,
                at: now
            )
        )
    }

    private func success(_ world: inout HMSWorld) -> SandboxAnswer {
        world.counters.answers[HMSCode.success.code, default: 0] += 1
        return HMSAnswers.make(.success, status: 200, requestID: requestID)
    }

    private func finish(
        _ refused: [(token: String, reason: String)],
        of count: Int,
        form: HMSSimulatorConfiguration.PartialForm,
        _ world: inout HMSWorld
    ) -> SandboxAnswer {
        guard !refused.isEmpty else { return success(&world) }
        world.counters.answers["80100000", default: 0] += 1
        return HMSAnswers.partial(refused, of: count, form: form, requestID: requestID)
    }

    // MARK: v3

    /// The newer generation, as far as it differs: another body, a header, tokens of HarmonyOS 5 only.
    private mutating func sendV3(
        _ app: HMSSimulatorConfiguration.App,
        _ world: inout HMSWorld
    ) throws(HMSCode) -> SandboxAnswer {
        let (tokens, body) = try HMSSceneRules.read(request)
        // A text to be spoken is a scene of its own, 2, and no category of an alert.
        let alert = body.message["push_type"] == 0 ? body.message["payload"]?["notification"] : nil
        let common = alert?["category"] == "PLAY_VOICE" ? "notSupportPlayVoice" : nil
        if let flow = flow(tokens, &world) { return flow }
        try magic(tokens, &world)
        var refused: [(token: String, reason: String)] = []
        var good: [String] = []
        for token in tokens {
            if let reason = common ?? refusal(of: token, app, version: 3, world) {
                refused.append((token, reason))
            } else {
                good.append(token)
            }
        }
        for token in good { record(token, topic: "", body, batch: tokens.count, &world) }
        guard !good.isEmpty else {
            world.counters.answers[HMSCode.allTokensBad.code, default: 0] += 1
            return HMSAnswers.allBad(refused, status: settings.refusalStatus, requestID: requestID)
        }
        return finish(refused, of: tokens.count, form: .reasons, &world)
    }

    // MARK: Topics

    private func changeTopic(_ verb: String, _ world: inout HMSWorld) throws(HMSCode) -> SandboxAnswer {
        guard let body = (try? JSONValue(parsing: request.body))?.objectValue else { throw .structure("not JSON") }
        if verb == "list" {
            guard let token = body["token"]?.stringValue, !token.isEmpty else {
                throw HMSCode("82000011", "The token is missing")
            }
            let names = world.topics.filter { $0.value.contains(token) }.keys.sorted()
            world.counters.answers[HMSCode.success.code, default: 0] += 1
            return HMSAnswers.json(
                200,
                [
                    "code": "80000000", "msg": "success", "requestId": .string(requestID),
                    "topics": .array(names.map { ["name": .string($0), "addDate": "2026-01-01"] }),
                ]
            )
        }
        guard let topic = body["topic"]?.stringValue, (1...900).contains(topic.count),
            topic.allSatisfy({
                $0.isASCII
                    ? $0.isLetter || $0.isNumber || "-_.~%".contains($0)
                    : $0.unicodeScalars.allSatisfy(\.properties.isIdeographic)
            })
        else { throw HMSCode("82000007", "Incorrect topic name") }
        guard let list = body["tokenArray"]?.arrayValue, (1...1000).contains(list.count) else {
            throw HMSCode("82000008", "Incorrect token array")
        }
        var errors: [JSONValue] = []
        for (index, token) in list.enumerated() {
            let token = token.stringValue ?? ""
            let app = settings.apps.first ?? .init()
            let isApple = world.devices[token]?.isApple ?? false
            if isApple || refusal(of: token, app, version: 1, world) != nil {
                errors.append([
                    "index": .integer(Int64(index)), "reason": isApple ? "not an Android app" : "invalid token",
                ])
                continue
            }
            if verb == "subscribe" {
                let count = world.topics.count { $0.value.contains(token) }
                guard count < 2000 else { throw HMSCode("82000009", "Too many topics") }
                world.topics[topic, default: []].insert(token)
            } else {
                world.topics[topic]?.remove(token)
            }
        }
        let code = errors.isEmpty ? "80000000" : "82000010"
        world.counters.answers[code, default: 0] += 1
        // The counts come as strings at times; readers must take both.
        return HMSAnswers.json(
            200,
            [
                "code": .string(code), "msg": "done", "requestId": .string(requestID),
                "successCount": .string(String(list.count - errors.count)),
                "failureCount": .integer(Int64(errors.count)),
                "errors": .array(errors),
            ]
        )
    }
}
