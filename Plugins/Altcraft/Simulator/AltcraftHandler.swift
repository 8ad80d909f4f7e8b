internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// Altcraft's mobile endpoints and the start of a campaign: finds the call, checks it, shapes the answer.
///
/// Strict where the SDK's code and the seed show the form of requests; lenient where it is unknown.
struct AltcraftHandler: SandboxHandler {
    /// An answer that ends a call.
    struct Refusal: Error {
        let answer: SandboxAnswer
    }

    static let providers: Set<String> = [
        "ios-apns", "ios-firebase", "ios-huawei", "android-firebase", "android-huawei", "android-rustore",
    ]
    private static let statuses: Set<String> = ["subscribed", "suspended", "unsubscribed"]

    let simulator: AltcraftSimulator

    init(_ simulator: AltcraftSimulator) { self.simulator = simulator }

    func subject(of request: SandboxRequest) -> SandboxSubject {
        SandboxSubject(token: FormFields.parse(request.query)?["subscription_id"])
    }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        count(request)
        let json: JSONValue? = fault.reason.map { ["error": .integer(Int64(fault.status)), "error_text": .string($0)] }
        return fault.plain(json: json?.bytes ?? [], now: now)
    }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        count(request)
        do throws(Refusal) {
            return SandboxReply(answer: try route(request, now))
        } catch {
            simulator.withState { $0.counters.refused += 1 }
            return SandboxReply(answer: error.answer)
        }
    }

    private func count(_ request: SandboxRequest) {
        simulator.withState { state in
            state.counters.requests += 1
            guard let id = request.header("request-id") else { return }
            if state.requestIDs.count > 10_000 { state.requestIDs = [:] }
            state.requestIDs[id, default: 0] += 1
        }
    }

    private func route(_ request: SandboxRequest, _ now: Date) throws(Refusal) -> SandboxAnswer {
        simulator.withState { $0.advance(at: now) }
        if request.path.hasPrefix("/api/v1.1/") { return try AltcraftCampaignHandler(simulator).answer(request, now) }
        if request.path == "/event/post" { return try mobileEvent(request, now) }
        guard request.header("content-type")?.lowercased().hasPrefix("application/json") ?? false else {
            throw Self.refuse(400, "Content-Type must be application/json")
        }
        guard let id = request.header("request-id"), !id.isEmpty else {
            throw Self.refuse(400, "Request-ID is missing")
        }
        let caller = try AltcraftGate(simulator).caller(of: request, now)
        guard let query = FormFields.parse(request.query) else { throw Self.refuse(400, "the query cannot be read") }
        let call = Call(caller: caller, query: query, body: try body(request), requestID: id, now: now)
        switch (request.method, request.path) {
        case ("POST", "/subscription/push/subscribe/"): return try subscribe(call)
        case ("POST", "/subscription/push/update/"): return try update(call)
        case ("POST", "/subscription/push/unsuspend/"): return try unsuspend(call)
        case ("GET", "/subscription/push/status/"): return try status(call)
        case ("POST", "/event/push/delivery"): return try event(call, "delivery")
        case ("POST", "/event/push/open"): return try event(call, "open")
        case ("POST", "/profile/update"): return try profile(call)
        default: throw Self.refuse(404, "no such path")
        }
    }

    private struct Call {
        let caller: AltcraftCaller
        let query: [String: String]
        let body: JSONObject
        let requestID: String
        let now: Date
    }

    private func body(_ request: SandboxRequest) throws(Refusal) -> JSONObject {
        guard request.method != "GET" else { return JSONObject() }
        guard let object = (try? JSONValue(parsing: request.body))?.objectValue else {
            throw Self.refuse(400, "the body is no JSON object")
        }
        return object
    }

    // MARK: Calls

    private func subscribe(_ call: Call) throws(Refusal) -> SandboxAnswer {
        try checkMode(call)
        let inner = call.body["subscription"]?.objectValue ?? JSONObject()
        guard let time = call.body["time"]?.integerValue, time > 0 else { throw Self.refuse(400, "time is missing") }
        guard let token = call.body["subscription_id"]?.stringValue, !token.isEmpty,
            inner["subscription_id"]?.stringValue == token
        else { throw Self.refuse(400, "subscription_id is missing, or there are two") }
        guard let provider = inner["provider"]?.stringValue, Self.providers.contains(provider),
            call.query["provider"] == provider
        else { throw Self.refuse(400, "provider is missing, unknown, or there are two") }
        guard let status = inner["status"]?.stringValue, Self.statuses.contains(status) else {
            throw Self.refuse(400, "status is missing or unknown")
        }
        guard let fields = inner["fields"]?.objectValue, let list = inner["cats"]?.arrayValue,
            let replaces = call.body["replace"]?.boolValue, let skips = call.body["skip_triggers"]?.boolValue
        else { throw Self.refuse(400, "fields, cats, replace or skip_triggers is missing") }
        let sync = try flag(call.query["sync"])
        let rules = simulator.rules
        let categories = try categories(list, rules)
        for (name, value) in fields {
            let isPrimitive = value.objectValue == nil && value.arrayValue == nil
            guard isPrimitive, name.hasPrefix("_") || rules.subscriptionFields.contains(name) else {
                throw Self.refuse(
                    400,
                    "Platform profile processing error: field \"\(name)\" is not valid: failed convert custom field"
                )
            }
        }
        let change = AltcraftSubscriptionChange(
            caller: call.caller,
            token: token,
            provider: provider,
            status: status,
            fields: fields,
            categories: categories,
            profileFields: try profileFields(call, provider, token),
            replaces: replaces,
            skipsTriggers: skips
        )
        guard sync else {
            let due = call.now.addingTimeInterval(rules.processingDelay.inSeconds)
            simulator.withState { $0.pending.append((due, change)) }
            return Self.json(rules.acknowledgement, ["error": 0, "error_text": ""])
        }
        return simulator.withState { state in
            let place = state.apply(change)
            return Self.answer(state.profiles[place], state.profiles[place].subscriptions.last)
        }
    }

    private func categories(
        _ list: [JSONValue],
        _ rules: AltcraftSimulator.Rules
    ) throws(Refusal) -> [(name: String, isActive: Bool)] {
        var categories: [(name: String, isActive: Bool)] = []
        for entry in list {
            guard let name = entry["name"]?.stringValue, rules.categories.contains(name) else {
                throw Self.refuse(
                    400,
                    "Platform profile processing error: field \"subscriptions.cats\" is not valid: "
                        + "category not found in resource"
                )
            }
            categories.append((name, entry["active"]?.boolValue ?? true))
        }
        return categories
    }

    private func profileFields(
        _ call: Call,
        _ provider: String?,
        _ token: String?
    ) throws(Refusal) -> AltcraftFieldChanges? {
        guard let fields = call.body["profile_fields"]?.objectValue else { return nil }
        let (known, current) = simulator.withState { state in
            let place = state.profile(call.caller, provider, token)
            return (state.rules.profileFields, place.map { state.profiles[$0].fields } ?? JSONObject())
        }
        return try AltcraftFieldChanges(fields, known: known, current: current)
    }

    private func update(_ call: Call) throws(Refusal) -> SandboxAnswer {
        for name in ["old_token", "old_provider", "new_token", "new_provider"] where call.body[name] == nil {
            throw Self.refuse(400, "\(name) is missing")
        }
        guard let token = call.body["new_token"]?.stringValue, let provider = call.body["new_provider"]?.stringValue,
            Self.providers.contains(provider), call.query["provider"] == provider,
            call.query["subscription_id"] == call.body["old_token"]?.stringValue
        else { throw Self.refuse(400, "the query and the body do not name the same tokens") }
        guard let old = call.body["old_token"]?.stringValue, let service = call.body["old_provider"]?.stringValue else {
            return Self.json(200, ["error": 0, "error_text": ""])
        }
        return simulator.withState { state in
            var found: (Int, AltcraftSubscription)?
            for place in state.profiles.indices where state.profiles[place].databaseID == call.caller.databaseID {
                guard
                    let index = state.profiles[place].subscriptions.firstIndex(where: {
                        $0.token == old && $0.provider == service
                    })
                else { continue }
                var entry = state.profiles[place].subscriptions.remove(at: index)
                state.profiles[place].subscriptions.removeAll { $0.token == token && $0.provider == provider }
                (entry.token, entry.provider) = (token, provider)
                state.profiles[place].subscriptions.append(entry)
                found = (place, entry)
            }
            guard let found else { return Self.json(200, ["error": 0, "error_text": ""]) }
            return Self.answer(state.profiles[found.0], found.1)
        }
    }

    private func unsuspend(_ call: Call) throws(Refusal) -> SandboxAnswer {
        if call.query["matching_mode"] != nil { try checkMode(call) }
        guard let token = call.query["subscription_id"], let provider = call.query["provider"],
            call.body["subscription"]?["subscription_id"]?.stringValue == token,
            call.body["subscription"]?["provider"]?.stringValue == provider, call.body["replace"] == true
        else { throw Self.refuse(400, "the query and the body do not name the same subscription") }
        return simulator.withState { state in
            guard let place = state.unsuspend(call.caller, provider, token) else {
                return Self.json(200, ["error": 0, "error_text": "", "profile": nil])
            }
            let profile = state.profiles[place]
            return Self.answer(profile, profile.subscriptions.first { $0.token == token && $0.provider == provider })
        }
    }

    private func status(_ call: Call) throws(Refusal) -> SandboxAnswer {
        try checkMode(call)
        let token = call.query["subscription_id"]
        let provider = call.query["provider"]
        if let provider, !Self.providers.contains(provider) { throw Self.refuse(400, "unknown provider") }
        return simulator.withState { state in
            guard let place = state.profile(call.caller, provider, token) else {
                return Self.json(200, ["error": 0, "error_text": "", "profile": nil])
            }
            let profile = state.profiles[place]
            let entry = profile.subscriptions.last {
                (provider == nil || $0.provider == provider) && (token == nil || $0.token == token)
            }
            return Self.answer(profile, entry)
        }
    }

    private func event(_ call: Call, _ type: String) throws(Refusal) -> SandboxAnswer {
        try checkMode(call)
        guard let time = call.body["time"]?.integerValue, time > 0, let smid = call.body["smid"]?.stringValue,
            !smid.isEmpty
        else { throw Self.refuse(400, "time or smid is missing") }
        simulator.withState { state in
            if let place = state.events.firstIndex(where: { $0.smid == smid && $0.type == type }) {
                state.events[place].count += 1
            } else {
                state.events.append(.init(smid: smid, type: type, time: time, requestID: call.requestID))
            }
        }
        return Self.json(200, ["error": 0, "error_text": ""])
    }

    /// Takes an event of an app's own: a form whose parts the code of Altcraft's SDK shows.
    private func mobileEvent(_ request: SandboxRequest, _ now: Date) throws(Refusal) -> SandboxAnswer {
        guard request.method == "POST" else { throw Self.refuse(404, "no such path") }
        guard let id = request.header("request-id"), !id.isEmpty else {
            throw Self.refuse(400, "Request-ID is missing")
        }
        _ = try AltcraftGate(simulator).caller(of: request, now)
        guard let query = FormFields.parse(request.query), query["tr"] == "px", query["t"] == "open", query["v"] == "2"
        else { throw Self.refuse(400, "the query needs tr=px, t=open and v=2") }
        guard let pixel = query["i"], simulator.rules.pixels.contains(pixel) else {
            throw Self.refuse(400, "the pixel is not known")
        }
        guard let form = AltcraftForm(request) else { throw Self.refuse(400, "the body is no multipart/form-data") }
        if let other = form.parts.keys.filter({ !Self.eventParts.contains($0) }).min() {
            throw Self.refuse(400, "the part \(other) is not known")
        }
        guard form.text("tz").flatMap({ Int($0) }) != nil, let time = form.text("t").flatMap({ Int64($0) }), time > 0,
            form.text("aci") != nil, let name = form.text("wn"), !name.isEmpty
        else { throw Self.refuse(400, "tz, t, aci or wn is missing") }
        var values: [String: JSONValue] = [:]
        for part in Self.jsonEventParts where form.parts[part] != nil {
            guard let value = form.json(part) else { throw Self.refuse(400, "the part \(part) is no JSON") }
            guard part == "mi" ? value.stringValue != nil : value.objectValue != nil else {
                throw Self.refuse(400, "the part \(part) is of another type")
            }
            values[part] = value
        }
        let data = values["wd"]?.objectValue ?? JSONObject()
        guard data.allSatisfy({ $0.value.objectValue == nil && $0.value.arrayValue == nil }) else {
            throw Self.refuse(400, "the part wd is not flat")
        }
        simulator.withState { state in
            if let place = state.mobileEvents.firstIndex(where: { $0.requestID == id }) {
                state.mobileEvents[place].count += 1
            } else {
                var texts: [String: String] = [:]
                for part in Self.eventParts { texts[part] = form.text(part) }
                state.mobileEvents.append(
                    .init(name: name, pixel: pixel, time: time, texts: texts, values: values, requestID: id)
                )
            }
        }
        return Self.json(200, ["error": 0, "error_text": ""])
    }

    /// The parts of an event of an app's own that are JSON.
    private static let jsonEventParts = ["wd", "mi", "ma", "sn", "pf"]
    /// All parts of an event of an app's own.
    private static let eventParts = Set(
        jsonEventParts + ["tz", "t", "aci", "wn", "mm", "cn", "cc", "ck", "cm", "cs", "ct"]
    )

    private func profile(_ call: Call) throws(Refusal) -> SandboxAnswer {
        guard let changes = try profileFields(call, nil, nil), call.body["skip_triggers"]?.boolValue != nil else {
            throw Self.refuse(400, "profile_fields or skip_triggers is missing")
        }
        return simulator.withState { state in
            let place = state.profile(call.caller, nil, nil) ?? state.addProfile(call.caller)
            state.profiles[place].fields = changes.applied(to: state.profiles[place].fields)
            return Self.answer(state.profiles[place], nil)
        }
    }

    private func checkMode(_ call: Call) throws(Refusal) {
        guard let mode = call.query["matching_mode"], call.caller.modes.contains(mode) else {
            throw Self.refuse(400, "matching_mode is not the one of the credential")
        }
    }

    private func flag(_ text: String?) throws(Refusal) -> Bool {
        switch text {
        case "true", "1": return true
        case "false", "0": return false
        default: throw Self.refuse(400, "sync is missing")
        }
    }

    // MARK: Shapes

    static func refuse(_ status: Int, _ text: String) -> Refusal {
        Refusal(answer: json(status, ["error": .integer(Int64(status)), "error_text": .string(text)]))
    }

    static func json(_ status: Int, _ value: JSONValue) -> SandboxAnswer {
        SandboxAnswer(
            status: status,
            headers: [HTTPHeader("content-type", "application/json; charset=utf-8")],
            body: value.bytes
        )
    }

    private static func answer(_ profile: AltcraftProfile, _ subscription: AltcraftSubscription?) -> SandboxAnswer {
        json(200, ["error": 0, "error_text": "", "profile": profile.json(subscription)])
    }
}

extension AltcraftProfile {
    func json(_ subscription: AltcraftSubscription?) -> JSONValue {
        [
            "id": .string(id), "status": .string(subscription?.status ?? "subscribed"), "is_test": false,
            "subscription": subscription?.json ?? .null,
        ]
    }
}

extension AltcraftSubscription {
    var json: JSONValue {
        let list = categories.sorted { $0.key < $1.key }.map { name, isActive -> JSONValue in
            ["name": .string(name), "title": .string(name.capitalized), "steady": false, "active": .bool(isActive)]
        }
        return [
            "subscription_id": .string(token), "hash_id": .string(hashID), "provider": .string(provider),
            "status": .string(status), "fields": .object(fields), "cats": .array(list),
        ]
    }
}
