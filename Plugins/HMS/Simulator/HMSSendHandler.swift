internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// Processes one request to the push endpoint, by Huawei's rules and in their order.
///
/// ``HMSPushHandler`` makes one for each request and calls it under the lock of the state. It throws the code of the
/// first rule that is broken; then nothing of the message is in the inbox.
struct HMSSendHandler {
    let settings: HMSSimulatorConfiguration
    let request: SandboxRequest
    let requestID: String
    let now: Date
    let receipts: HMSReceiptPlan
    /// The delay of the answer.
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

    mutating func answer(_ call: HMSPushHandler.Call, _ state: inout HMSState) throws(HMSCode) -> SandboxAnswer {
        switch call {
        case .send(let version, let id):
            state.counters.sends += 1
            let app = try admit(&state, needsJWT: version == 3)
            guard app.appID == id && version == 1 || app.projectID == id && version > 1 else { throw .wrongApp }
            if version == 3 { return try sendV3(app, &state) }
            return try send(app, &state)
        case .topic(let verb, let appID):
            let app = try admit(&state)
            guard app.appID == appID else { throw .wrongApp }
            return try changeTopic(verb, &state)
        case .revoke(let clientID):
            state.counters.revocations += 1
            let app = try admit(&state, needsJWT: true)
            guard (app.clientID ?? app.appID) == clientID else { throw .wrongApp }
            return try revoke(app, &state)
        case .deleteToken(let appID):
            let app = try admit(&state)
            guard app.appID == appID else { throw .wrongApp }
            guard let token = (try? JSONValue(parsing: request.body))?["token"]?.stringValue else {
                throw .parameter("token")
            }
            state.devices[token] = HMSDevice(appID: app.appID, state: .refused(reason: "tokenFormatError"))
            for name in state.topics.keys { state.topics[name]?.remove(token) }
            return success(&state)
        }
    }

    // MARK: Credentials

    private func admit(_ state: inout HMSState, needsJWT: Bool = false) throws(HMSCode) -> HMSSimulatorConfiguration.App
    {
        guard let field = request.header("authorization"), field.hasPrefix("Bearer ") else { throw .badToken }
        let token = String(field.dropFirst("Bearer ".count))
        if token.hasPrefix("eyJ") {
            if let refusal = settings.serviceAccount.refusal(of: token, at: now) { throw refusal }
            guard let app = settings.apps.first else { throw .badToken }
            return app
        }
        guard !needsJWT, let grant = state.grants[token], !grant.isRevoked,
            let app = settings.apps.first(where: { $0.appID == grant.appID })
        else { throw .badToken }
        guard grant.endsAt > now else { throw .tokenExpired }
        return app
    }

    // MARK: v1 and v2

    private mutating func send(
        _ app: HMSSimulatorConfiguration.App,
        _ state: inout HMSState
    ) throws(HMSCode) -> SandboxAnswer {
        let body = try HMSMessageRules.read(request.body, settings)
        if let flow = flow(body.tokens, &state) { return flow }
        try magic(body.tokens, &state)
        if let audience = body.audience {
            if !body.isValidation {
                record("", topic: audience, body, batch: 1, &state)
            } else {
                state.counters.validated += 1
            }
            return success(&state)
        }
        var refused: [(token: String, reason: String)] = []
        var good: [String] = []
        for token in body.tokens {
            if let reason = refusal(of: token, app, version: 1, state) {
                refused.append((token, reason))
            } else {
                good.append(token)
            }
        }
        guard !good.isEmpty else { throw .allTokensBad }
        if body.isValidation {
            state.counters.validated += good.count
        } else {
            for token in good { record(token, topic: "", body, batch: body.tokens.count, &state) }
        }
        return finish(refused, of: body.tokens.count, form: settings.partialForm, &state)
    }

    private func refusal(
        of token: String,
        _ app: HMSSimulatorConfiguration.App,
        version: Int,
        _ state: HMSState
    ) -> String? {
        if let device = state.devices[token] {
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

    /// Returns 503 when the app exceeds its quota of devices a second, or a magic token asks for it.
    private func flow(_ tokens: [String], _ state: inout HMSState) -> SandboxAnswer? {
        var isOver = false
        if let limit = settings.devicesPerSecond {
            isOver = !state.reserveQuota(max(1, tokens.count), perSecond: limit, at: now)
        }
        if settings.honoursMagicTokens {
            for token in tokens where HMSMagicToken(token) == .flowOnce {
                if state.magicSeen.insert(token) { isOver = true }
            }
        }
        guard isOver else { return nil }
        state.counters.answers["http_503", default: 0] += 1
        return FaultAnswer(503, retryAfter: settings.flowRetryAfter).plain()
    }

    private mutating func magic(_ tokens: [String], _ state: inout HMSState) throws(HMSCode) {
        guard settings.honoursMagicTokens else { return }
        for token in tokens {
            switch HMSMagicToken(token) {
            case .expiredOnce?: if state.magicSeen.insert(token) { throw .tokenExpired }
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
        _ state: inout HMSState
    ) {
        state.record(
            HMSDelivery(
                requestID: requestID,
                token: token,
                topic: topic,
                tag: body.tag,
                message: JSONValue.object(body.message).text,
                batch: batch,
                acceptedAt: now,
                pushType: body.message["push_type"]?.integerValue
            ),
            limit: settings.inboxLimit
        )
        guard receipts.url != nil, !token.isEmpty else { return }
        var status = 0
        if settings.honoursMagicTokens, case .receipt(let wanted)? = HMSMagicToken(token) { status = wanted }
        if let wanted = receipts.statuses[token] { status = wanted }
        state.owed.append(
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

    private func success(_ state: inout HMSState) -> SandboxAnswer {
        state.counters.answers[HMSCode.success.code, default: 0] += 1
        return HMSAnswers.make(.success, status: 200, requestID: requestID)
    }

    private func finish(
        _ refused: [(token: String, reason: String)],
        of count: Int,
        form: HMSSimulatorConfiguration.PartialForm,
        _ state: inout HMSState
    ) -> SandboxAnswer {
        guard !refused.isEmpty else { return success(&state) }
        state.counters.answers["80100000", default: 0] += 1
        return HMSAnswers.partial(refused, of: count, form: form, requestID: requestID)
    }

    // MARK: v3

    /// Sends by v3: another body, the header field `push-type`, and tokens of HarmonyOS 5 only.
    private mutating func sendV3(
        _ app: HMSSimulatorConfiguration.App,
        _ state: inout HMSState
    ) throws(HMSCode) -> SandboxAnswer {
        let (tokens, body) = try HMSSceneRules.read(request)
        // A text to be spoken has a scene of its own, 2, and is no category of an alert.
        let alert = body.message["push_type"] == 0 ? body.message["payload"]?["notification"] : nil
        let common = alert?["category"] == "PLAY_VOICE" ? "notSupportPlayVoice" : nil
        if let flow = flow(tokens, &state) { return flow }
        try magic(tokens, &state)
        var refused: [(token: String, reason: String)] = []
        var good: [String] = []
        for token in tokens {
            if let reason = common ?? refusal(of: token, app, version: 3, state) {
                refused.append((token, reason))
            } else {
                good.append(token)
            }
        }
        for token in good { record(token, topic: "", body, batch: tokens.count, &state) }
        guard !good.isEmpty else {
            state.counters.answers[HMSCode.allTokensBad.code, default: 0] += 1
            return HMSAnswers.allBad(refused, status: settings.refusalStatus, requestID: requestID)
        }
        return finish(refused, of: tokens.count, form: .reasons, &state)
    }

    /// Takes an alert, or a text to be spoken, back from devices.
    private func revoke(
        _ app: HMSSimulatorConfiguration.App,
        _ state: inout HMSState
    ) throws(HMSCode) -> SandboxAnswer {
        let revocation = try HMSSceneRules.revocation(request)
        if let flow = flow(revocation.tokens, &state) { return flow }
        guard revocation.tokens.allSatisfy({ belongs($0, to: app, state) }) else { throw .foreignToken }
        let good = revocation.tokens.filter { refusal(of: $0, app, version: 3, state) == nil }
        guard !good.isEmpty else { throw .allTokensBad }
        state.revoke(revocation.notifyID, pushType: revocation.pushType, from: Set(good))
        return success(&state)
    }

    /// Whether a token is not known to be of another app.
    private func belongs(_ token: String, to app: HMSSimulatorConfiguration.App, _ state: HMSState) -> Bool {
        guard let device = state.devices[token] else { return true }
        return (device.appID ?? settings.apps.first?.appID) == app.appID
    }

    // MARK: Topics

    private func changeTopic(_ verb: String, _ state: inout HMSState) throws(HMSCode) -> SandboxAnswer {
        guard let body = (try? JSONValue(parsing: request.body))?.objectValue else { throw .structure("not JSON") }
        if verb == "list" {
            guard let token = body["token"]?.stringValue, !token.isEmpty else {
                throw HMSCode("82000011", "The token is missing")
            }
            let names = state.topics.filter { $0.value.contains(token) }.keys.sorted()
            state.counters.answers[HMSCode.success.code, default: 0] += 1
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
            let isApple = state.devices[token]?.isApple ?? false
            if isApple || refusal(of: token, app, version: 1, state) != nil {
                errors.append([
                    "index": .integer(Int64(index)), "reason": isApple ? "not an Android app" : "invalid token",
                ])
                continue
            }
            if verb == "subscribe" {
                let count = state.topics.count { $0.value.contains(token) }
                guard count < 2000 else { throw HMSCode("82000009", "Too many topics") }
                state.topics[topic, default: []].insert(token)
            } else {
                state.topics[topic]?.remove(token)
            }
        }
        let code = errors.isEmpty ? "80000000" : "82000010"
        state.counters.answers[code, default: 0] += 1
        // The counts are strings at times; readers must accept both.
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
