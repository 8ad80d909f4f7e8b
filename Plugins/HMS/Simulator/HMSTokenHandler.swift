internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// The token endpoint: OAuth 2.0 client credentials, with Huawei's own error numbers.
struct HMSTokenHandler: SandboxHandler {
    let service: HMSServiceState

    func subject(of request: SandboxRequest) -> SandboxSubject { SandboxSubject() }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        fault.plain(json: Self.refusal(Int64(fault.reason ?? "") ?? 0).body)
    }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        guard request.path == "/oauth2/v3/token" else { return SandboxReply(answer: SandboxAnswer(status: 404)) }
        guard request.method == "POST" else { return SandboxReply(answer: SandboxAnswer(status: 405)) }
        let settings = service.settings
        return service.withState { state in
            let answer = Self.answer(request, settings, &state, now)
            if answer.status == 200 { state.counters.tokensIssued += 1 } else { state.counters.tokensRefused += 1 }
            return SandboxReply(answer: answer)
        }
    }

    private static func answer(
        _ request: SandboxRequest,
        _ settings: HMSSimulatorConfiguration,
        _ state: inout HMSState,
        _ now: Date
    ) -> SandboxAnswer {
        guard request.header("content-type")?.hasPrefix("application/x-www-form-urlencoded") ?? false else {
            return refusal(20182)
        }
        let form = fields(request.body)
        guard form["grant_type"] == "client_credentials" else { return refusal(20182) }
        guard let client = form["client_id"], !client.isEmpty else { return refusal(20001) }
        guard client.utf8.count <= 64, client.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return refusal(20002)
        }
        guard let app = settings.apps.first(where: { $0.appID == client }) else { return refusal(20003) }
        guard let secret = form["client_secret"], !secret.isEmpty else { return refusal(20171) }
        guard secret == app.clientSecret else { return refusal(20173) }
        if let limit = settings.tokenFetchLimit {
            let recent = (state.fetches[client] ?? []).filter { now.timeIntervalSince($0) < 300 }
            state.fetches[client] = recent + [now]
            guard recent.count < limit else { return SandboxAnswer(status: 503) }
        }
        if state.grants.count > 10_000 { state.grants = state.grants.filter { $0.value.endsAt > now } }
        // Huawei's tokens contain slashes, which its JSON escapes.
        let token = "CgB6e3x9/" + state.random.uuid() + "/" + state.random.uuid()
        state.grants[token] = HMSState.Grant(
            appID: client,
            endsAt: now.addingTimeInterval(settings.tokenLifetime.inSeconds)
        )
        let body =
            #"{"access_token":"\#(token.replacingOccurrences(of: "/", with: "\\/"))","#
            + #""expires_in":\#(settings.tokenLifetime.components.seconds),"token_type":"Bearer"}"#
        return SandboxAnswer(
            status: 200,
            headers: [HTTPHeader("content-type", "application/json")],
            body: Array(body.utf8)
        )
    }

    /// Decodes a form; a `+` is a blank, which breaks a secret that was not encoded.
    private static func fields(_ body: [UInt8]) -> [String: String] {
        var fields: [String: String] = [:]
        for pair in String(decoding: body, as: UTF8.self).split(separator: "&") {
            let sides = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard sides.count == 2 else { continue }
            let value = sides[1].replacingOccurrences(of: "+", with: " ")
            fields[String(sides[0])] = value.removingPercentEncoding ?? value
        }
        return fields
    }

    private static func refusal(_ subError: Int64) -> SandboxAnswer {
        HMSAnswers.json(
            400,
            [
                "error": 1101, "sub_error": .integer(subError),
                "error_description": .string("invalid request (\(subError))"),
            ]
        )
    }
}
