internal import ChaparCore
internal import ChaparSimulator
internal import Foundation

/// The control API of the simulator of push services, under `/webpush`, for tests in other languages and for people
/// with curl.
///
/// | call | does |
/// | --- | --- |
/// | `GET /` | says where everything listens, the seed, the public VAPID key, the magic ids |
/// | `GET /inbox?from=0&limit=100` | accepted messages with their decrypted text, oldest first |
/// | `GET /counters` | what happened |
/// | `POST /subscriptions` | `{"id","service","application_server_key"}`: gives a subscription, as a browser does |
/// | `POST /subscriptions/end` | `{"id","service"}`: its service answers 410 |
/// | `POST /reset` | forgets inbox, counters and rules |
/// | and | those of every simulated web service: `/rules`, `/goaway`, `/settings`, `/end` |
struct WebPushControl: SimulatorControl {
    let simulator: WebPushSimulator
    let common: HostControl
    var place: String { "/webpush" }

    init(simulator: WebPushSimulator) {
        self.simulator = simulator
        let words = FaultVocabulary(listeners: WebPushService.allCases.map(\.listener), foldsTokens: false)
        common = HostControl(host: simulator.host, words: words)
    }

    func answer(_ request: ControlRequest) throws(ControlError) -> JSONValue? {
        switch (request.method, request.path) {
        case ("GET", "/"): return overview
        case ("GET", "/inbox"): return request.page(of: simulator.inbox(from:limit:)) { ($0.number, $0.control) }
        case ("GET", "/counters"): return .object(counters)
        case ("POST", "/subscriptions"): return try subscribe(try request.json())
        case ("POST", "/subscriptions/end"): return try endSubscription(try request.json())
        case ("POST", "/reset"):
            simulator.reset()
            return [:]
        default: return nil
        }
    }

    private var overview: JSONValue {
        var listeners = JSONObject()
        for service in WebPushService.allCases { listeners[service.rawValue] = .string(simulator.url(service)) }
        return [
            "seed": .string("\(simulator.seed)"), "listeners": .object(listeners),
            "application_server_key": .string(simulator.applicationServerKey),
            "magic_ids": .array(WebPushMagicID.allCases.map { .string($0.rawValue) }),
        ]
    }

    private var counters: JSONObject {
        let counters = simulator.counters
        var object = simulator.host.counters.json
        object.add(counts: [("accepted", counters.accepted), ("undecryptable", counters.undecryptable)])
        object["refused"] = .object(JSONObject(counts: counters.refused))
        return object
    }

    private func subscribe(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "subscriptions")
        let (id, service) = try place(&fields)
        let key = try fields.string("application_server_key")
        try fields.finish()
        let text = simulator.subscription(id, at: service, applicationServerKey: key)
        guard let subscription = try? JSONValue(parsing: Array(text.utf8)) else {
            throw ControlError("the subscription cannot be written", status: 500)
        }
        return subscription
    }

    private func endSubscription(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "subscriptions")
        let (id, service) = try place(&fields)
        try fields.finish()
        simulator.end(id, at: service)
        return [:]
    }

    private func place(_ fields: inout ControlFields) throws(ControlError) -> (String, WebPushService) {
        let id = try fields.require(try fields.string("id"), "id")
        guard WebPushService.isID(id) else { throw fields.wrong("id", "1 to 200 of A-Z a-z 0-9 _ -") }
        return (id, try fields.choice("service", WebPushService.self) ?? .plain)
    }
}

extension WebPushDelivery {
    /// The message as the control API returns it.
    var control: JSONValue {
        [
            "number": .integer(Int64(number)), "service": .string(service.rawValue), "id": .string(id),
            "text": text.map { .string($0) } ?? .null, "message": json ?? .null,
            "body_bytes": .integer(Int64(bodyBytes)),
            "ttl": .integer(Int64(timeToLive)), "urgency": urgency.map { .string($0) } ?? .null,
            "topic": topic.map { .string($0) } ?? .null, "subject": .string(subject),
            "application_server_key": .string(applicationServerKey),
            "accepted_at": .integer(acceptedAt.millisecondsSince1970),
        ]
    }
}
