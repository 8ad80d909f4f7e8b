import Foundation
import PushCore

/// Tells the stories of the demonstration through a gateway's API, and compares their ends with what was expected.
struct DemoTeller: Sendable {
    /// What became of a story.
    struct Ending: Sendable {
        var story: DemoStory
        /// The state of its recipients, or the status of a refused request.
        var outcome: String
        /// The attempts that were made, in words.
        var attempts: String
        /// Whether it is the expected one; why not, when it is not.
        var complaint: String?
        /// The notification's id, when one was accepted.
        var id: String?
    }

    let client: GatewayClient
    /// When everything must have ended.
    let deadline: ContinuousClock.Instant

    /// Sends a story's requests.
    func begin(_ story: DemoStory) async throws -> Begun {
        var begun = Begun(story: story)
        var last: (body: [UInt8], key: String)?
        for step in story.steps {
            switch step {
            case .register(let device, let body):
                let answer = try await unwrap { () async throws(HTTPFailure) in
                    try await client.put("/v1/devices/\(device)", body.bytes)
                }
                if answer.status >= 300 { begun.problem = answer.problem }
            case .await(let device):
                try await waitUntilTold(device)
            case .subscribe(let device, let backend):
                let body: JSONValue = ["status": "subscribed", "backend": .string(backend)]
                let answer = try await unwrap { () async throws(HTTPFailure) in
                    try await client.put("/v1/devices/\(device)/subscription?wait=20", body.bytes)
                }
                let operation = answer.json["operations"]?.arrayValue?.first
                begun.words.append(operation?["status"]?.stringValue ?? answer.problem)
            case .logIn(let user, let device, let backend):
                let body: JSONValue = ["device": .string(device)]
                let answer = try await unwrap { () async throws(HTTPFailure) in
                    try await client.post("/v1/users/\(user)/switch", body.bytes, idempotencyKey: UUID().uuidString)
                }
                let own = answer.json["backends"]?.arrayValue?.first { $0["backend"] == .string(backend) }
                let word = own?["status"]?.stringValue ?? own?["error"]?["message"]?.stringValue
                begun.words.append(word ?? (own?["subscribing"] == true ? "subscribing" : answer.problem))
            case .send(let request):
                let call = (body: request.bytes, key: UUID().uuidString)
                begun.take(try await post(call.body, call.key))
                last = call
            case .repeatLast:
                guard let last else { continue }
                begun.take(try await post(last.body, last.key))
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

    /// Waits until nothing waits to be told about a device, or the time is over, which the story's end will show.
    private func waitUntilTold(_ device: String) async throws {
        while ContinuousClock.now < deadline {
            let answer = try await unwrap { () async throws(HTTPFailure) in
                try await client.get("/v1/devices/\(device)/operations")
            }
            guard answer.json["items"]?.arrayValue?.isEmpty == false else { return }
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    /// Waits for a story's end.
    func end(_ begun: Begun) async throws -> Ending {
        if case .refused(let fields) = begun.story.expected { return Self.judge(begun, fields: fields) }
        if case .words(let words) = begun.story.expected {
            let said = begun.words.joined(separator: ", then ")
            let complaint = begun.words == words ? nil : "expected \(words.joined(separator: ", then "))"
            return Ending(story: begun.story, outcome: begun.words.last ?? "-", attempts: said, complaint: complaint)
        }
        guard let id = begun.ids.last else {
            return Ending(
                story: begun.story,
                outcome: "\(begun.status)",
                attempts: "-",
                complaint: "not accepted: \(begun.problem ?? "no reason given")"
            )
        }
        if Set(begun.ids).count > 1 {
            let complaint = "the repeat was accepted as a second notification"
            return Ending(story: begun.story, outcome: "twice", attempts: "-", complaint: complaint, id: id)
        }
        var pause = Duration.milliseconds(20)
        while true {
            let items = try await deliveries(of: id)
            let states = items.map { DeliveryState(rawValue: $0["state"]?.stringValue ?? "") ?? .unknown }
            if states.allSatisfy(\.isFinal) || ContinuousClock.now >= deadline {
                return Self.judge(begun.story, id, items, states)
            }
            try await Task.sleep(for: pause)
            pause = min(pause * 2, .milliseconds(250))
        }
    }

    /// A story whose requests were sent.
    struct Begun: Sendable {
        let story: DemoStory
        fileprivate(set) var ids: [String] = []
        fileprivate(set) var status = 0
        fileprivate(set) var fields: [String] = []
        fileprivate(set) var words: [String] = []
        fileprivate(set) var problem: String?

        fileprivate init(story: DemoStory) { self.story = story }

        fileprivate mutating func take(_ answer: GatewayClient.Answer) {
            status = answer.status
            fields = (answer.json["errors"]?.arrayValue ?? []).compactMap { $0["pointer"]?.stringValue }
            if let id = answer.json["id"]?.stringValue { ids.append(id) } else { problem = answer.problem }
        }
    }

    private static func judge(_ begun: Begun, fields: [String]) -> Ending {
        var ending = Ending(story: begun.story, outcome: "refused \(begun.status)", attempts: "-")
        if begun.status != 422 {
            ending.complaint = "expected 422"
        } else if let missing = fields.first(where: { !begun.fields.contains($0) }) {
            ending.complaint = "expected \(missing) among the wrong fields"
        }
        return ending
    }

    private static func judge(
        _ story: DemoStory,
        _ id: String,
        _ items: [JSONValue],
        _ states: [DeliveryState]
    ) -> Ending {
        let counts = Dictionary(states.map { ($0.rawValue, 1) }, uniquingKeysWith: +).sorted { $0.key < $1.key }
        let outcome = counts.map { $0.value == 1 ? $0.key : "\($0.value) \($0.key)" }.joined(separator: ", ")
        let attempts = items.first?["attempts"]?.arrayValue ?? []
        let words = attempts.map { attempt in
            [attempt["status"]?.integerValue.map(String.init), attempt["reason"]?.stringValue].compactMap { $0 }
                .joined(separator: " ")
        }
        var ending = Ending(
            story: story,
            outcome: outcome,
            attempts: words.isEmpty ? "none" : words.joined(separator: ", then "),
            id: id
        )
        if case .way(let state, let way) = story.expected {
            let taken = attempts.compactMap { $0["backend"]?.stringValue }
            ending.attempts = zip(taken, words).map { "\($0): \($1)" }.joined(separator: ", then ")
            if !states.allSatisfy({ $0 == state }) {
                ending.complaint = "expected \(state.rawValue)"
            } else if taken != way {
                ending.complaint = "expected attempts by \(way.joined(separator: ", then "))"
            }
        }
        guard case .state(let state, let reason, let number) = story.expected else { return ending }
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

    /// Reports a tap on what the platform took; gives what is wrong.
    private func click(_ id: String, _ backend: String, _ device: String) async throws -> String? {
        while ContinuousClock.now < deadline {
            let attempts = try await deliveries(of: id).first?["attempts"]?.arrayValue
            guard let message = attempts?.last?["platform_id"]?.stringValue else {
                try await Task.sleep(for: .milliseconds(20))
                continue
            }
            // As the app has got it from the platform.
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
