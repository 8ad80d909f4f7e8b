import Foundation
import ChaparCore

/// Runs the scenarios of the demonstration through a gateway's API, and compares their ends with the expected ones.
struct DemoRunner: Sendable {
    /// The end of a scenario.
    struct Ending: Sendable {
        var scenario: DemoScenario
        /// The state of its recipients, or the status of a refused request.
        var outcome: String
        /// The attempts, as text.
        var attempts: String
        /// The difference from the expected end; nil when there is none.
        var complaint: String?
        /// The notification's id, when one was accepted.
        var id: String?
    }

    let client: GatewayClient
    /// The time at which every scenario must have ended.
    let deadline: ContinuousClock.Instant

    /// Sends a scenario's requests.
    func begin(_ scenario: DemoScenario) async throws -> Begun {
        var begun = Begun(scenario: scenario)
        var last: (body: [UInt8], key: String)?
        for step in scenario.steps {
            switch step {
            case .register(let device, let body):
                let answer = try await unwrap { () async throws(HTTPFailure) in
                    try await client.put("/v1/devices/\(device)", body.bytes)
                }
                if answer.status >= 300 { begun.problem = answer.problem }
            case .await(let device):
                try await waitUntilSynchronized(device)
            case .subscribe(let device, let backend):
                let body: JSONValue = ["status": "subscribed", "backend": .string(backend)]
                let answer = try await unwrap { () async throws(HTTPFailure) in
                    try await client.put("/v1/devices/\(device)/subscription?wait=20", body.bytes)
                }
                let operation = answer.json["operations"]?.arrayValue?.first
                begun.statuses.append(operation?["status"]?.stringValue ?? answer.problem)
            case .logIn(let user, let device, let backend):
                let body: JSONValue = ["device": .string(device)]
                let answer = try await unwrap { () async throws(HTTPFailure) in
                    try await client.post("/v1/users/\(user)/switch", body.bytes, idempotencyKey: UUID().uuidString)
                }
                let own = answer.json["backends"]?.arrayValue?.first { $0["backend"] == .string(backend) }
                let status = own?["status"]?.stringValue ?? own?["error"]?["message"]?.stringValue
                begun.statuses.append(status ?? (own?["subscribing"] == true ? "subscribing" : answer.problem))
            case .send(let request):
                let call = (body: request.bytes, key: UUID().uuidString)
                begun.add(try await post(call.body, call.key))
                last = call
            case .repeatLast:
                guard let last else { continue }
                begun.add(try await post(last.body, last.key))
            case .cancelLast:
                guard let id = begun.ids.last else { continue }
                _ = try await unwrap { () async throws(HTTPFailure) in
                    try await client.delete("/v1/notifications/\(id)")
                }
            case .click(let backend, let device):
                guard let id = begun.ids.last, let problem = try await click(id, backend, device) else { continue }
                begun.problem = problem
                begun.ids = []
            case .lookAtFirst:
                begun.ids = Array(begun.ids.prefix(1))
            }
        }
        return begun
    }

    /// Waits until a device has no waiting outbox entry, or until the deadline: the scenario's end then shows the
    /// failure.
    private func waitUntilSynchronized(_ device: String) async throws {
        while ContinuousClock.now < deadline {
            let answer = try await unwrap { () async throws(HTTPFailure) in
                try await client.get("/v1/devices/\(device)/operations")
            }
            guard answer.json["items"]?.arrayValue?.isEmpty == false else { return }
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    /// Waits for a scenario's end and returns it.
    func end(_ begun: Begun) async throws -> Ending {
        if case .refused(let fields) = begun.scenario.expected { return Self.ending(begun, fields: fields) }
        if case .statuses(let statuses) = begun.scenario.expected {
            let said = begun.statuses.joined(separator: ", then ")
            let complaint = begun.statuses == statuses ? nil : "expected \(statuses.joined(separator: ", then "))"
            return Ending(
                scenario: begun.scenario,
                outcome: begun.statuses.last ?? "-",
                attempts: said,
                complaint: complaint
            )
        }
        guard let id = begun.ids.last else {
            return Ending(
                scenario: begun.scenario,
                outcome: "\(begun.status)",
                attempts: "-",
                complaint: "not accepted: \(begun.problem ?? "no reason given")"
            )
        }
        if Set(begun.ids).count > 1 {
            let complaint = "the repeat was accepted as a second notification"
            return Ending(scenario: begun.scenario, outcome: "twice", attempts: "-", complaint: complaint, id: id)
        }
        var pause = Duration.milliseconds(20)
        while true {
            let items = try await deliveries(of: id)
            let states = items.map { DeliveryState(rawValue: $0["state"]?.stringValue ?? "") ?? .unknown }
            if states.count >= max(1, begun.recipients) && states.allSatisfy(\.isFinal)
                || ContinuousClock.now >= deadline
            {
                return Self.ending(begun.scenario, id, items, states, recipients: begun.recipients)
            }
            try await Task.sleep(for: pause)
            pause = min(pause * 2, .milliseconds(250))
        }
    }

    /// A scenario whose requests were sent.
    struct Begun: Sendable {
        let scenario: DemoScenario
        fileprivate(set) var ids: [String] = []
        /// The number of deliveries that the last answer announced; 0 when it is not known exactly.
        fileprivate(set) var recipients = 0
        fileprivate(set) var status = 0
        fileprivate(set) var fields: [String] = []
        fileprivate(set) var statuses: [String] = []
        fileprivate(set) var problem: String?

        fileprivate init(scenario: DemoScenario) { self.scenario = scenario }

        fileprivate mutating func add(_ answer: GatewayClient.Answer) {
            status = answer.status
            fields = (answer.json["errors"]?.arrayValue ?? []).compactMap { $0["pointer"]?.stringValue }
            if let id = answer.json["id"]?.stringValue { ids.append(id) } else { problem = answer.problem }
            let promised = answer.json["recipients"]
            recipients =
                promised?["exact"]?.boolValue == true ? Int(clamping: promised?["count"]?.integerValue ?? 0) : 0
        }
    }

    private static func ending(_ begun: Begun, fields: [String]) -> Ending {
        var ending = Ending(scenario: begun.scenario, outcome: "refused \(begun.status)", attempts: "-")
        if begun.status != 422 {
            ending.complaint = "expected 422"
        } else if let missing = fields.first(where: { !begun.fields.contains($0) }) {
            ending.complaint = "expected \(missing) among the wrong fields"
        }
        return ending
    }

    static func ending(
        _ scenario: DemoScenario,
        _ id: String,
        _ items: [JSONValue],
        _ states: [DeliveryState],
        recipients: Int = 0
    ) -> Ending {
        let counts = Dictionary(states.map { ($0.rawValue, 1) }, uniquingKeysWith: +).sorted { $0.key < $1.key }
        let outcome = counts.map { $0.value == 1 ? $0.key : "\($0.value) \($0.key)" }.joined(separator: ", ")
        var (states, attempts) = (states, items.first?["attempts"]?.arrayValue ?? [])
        switch scenario.expected {
        case .state(.acceptedByPlatform, _, _), .way(.acceptedByPlatform, _):
            // A receipt may have come meanwhile, which does not matter to such a scenario.
            states = states.map { $0 == .delivered ? .acceptedByPlatform : $0 }
            attempts.removeAll { $0["outcome"]?.stringValue == "receipt" }
        default: break
        }
        let statuses = attempts.map { attempt in
            [attempt["status"]?.integerValue.map(String.init), attempt["reason"]?.stringValue].compactMap { $0 }
                .joined(separator: " ")
        }
        var ending = Ending(
            scenario: scenario,
            outcome: outcome,
            attempts: statuses.isEmpty ? "none" : statuses.joined(separator: ", then "),
            id: id
        )
        if case .way(let state, let way) = scenario.expected {
            let taken = attempts.compactMap { $0["backend"]?.stringValue }
            ending.attempts = zip(taken, statuses).map { "\($0): \($1)" }.joined(separator: ", then ")
            if !states.allSatisfy({ $0 == state }) {
                ending.complaint = "expected \(state.rawValue)"
            } else if taken != way {
                ending.complaint = "expected attempts by \(way.joined(separator: ", then "))"
            }
        }
        guard items.count >= max(1, recipients) else {
            ending.complaint = "expected \(max(1, recipients)) deliveries, there are \(items.count)"
            return ending
        }
        guard case .state(let state, let reason, let number) = scenario.expected else { return ending }
        if !states.allSatisfy({ $0 == state }) {
            ending.complaint = "expected \(state.rawValue)"
        } else if let reason, attempts.last?["reason"]?.stringValue != reason {
            ending.complaint = "expected the reason \(reason)"
        } else if let number, attempts.count != number {
            ending.complaint = "expected \(number) attempt\(number == 1 ? "" : "s")"
        }
        return ending
    }

    private func post(_ body: [UInt8], _ key: String) async throws -> GatewayClient.Answer {
        try await unwrap { () async throws(HTTPFailure) in
            try await client.post("/v1/notifications", body, idempotencyKey: key)
        }
    }

    /// Reports a tap on the message that the platform took; returns the problem, if any.
    private func click(_ id: String, _ backend: String, _ device: String) async throws -> String? {
        while ContinuousClock.now < deadline {
            let attempts = try await deliveries(of: id).first?["attempts"]?.arrayValue
            guard let message = attempts?.last?["platform_id"]?.stringValue else {
                try await Task.sleep(for: .milliseconds(20))
                continue
            }
            // The report of an app that got the message from the platform.
            let report: JSONValue = [
                "device": .string(device), "action_identifier": "com.apple.UNNotificationDefaultActionIdentifier",
                "user_info": ["message": ["id": .string(message), "content": "Left Tabriz"]],
            ]
            let answer = try await unwrap { () async throws(HTTPFailure) in
                try await client.post("/v1/backends/\(backend)/clicks", report.bytes, idempotencyKey: UUID().uuidString)
            }
            return answer.status == 200 ? nil : answer.problem
        }
        return "the platform did not take it in time"
    }

    private func deliveries(of id: String) async throws -> [JSONValue] {
        let answer = try await unwrap { () async throws(HTTPFailure) in
            try await client.get("/v1/notifications/\(id)/deliveries?limit=1000")
        }
        return answer.json["items"]?.arrayValue ?? []
    }

    private func unwrap<Value>(_ call: () async throws(HTTPFailure) -> Value) async throws -> Value {
        do {
            return try await call()
        } catch {
            throw client.unreachable(error)
        }
    }
}
