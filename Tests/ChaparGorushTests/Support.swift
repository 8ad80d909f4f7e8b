import Foundation
import ChaparCore
import ChaparModules
import ChaparQueue
import Synchronization

@testable import ChaparGorush

/// A gateway of a test: keeps what it is handed, and answers as it is told to.
final class FakeGate: ModuleGate {
    struct Contents {
        var accepted: [JSONObject] = []
        var keys: [String?] = []
        /// Returns the problem of a notification; nil accepts it.
        var refuse: @Sendable (JSONObject) -> String? = { _ in nil }
        var problem: ModuleProblem?
        /// The end of each delivery, by its token; others are accepted.
        var ends: [String: (DeliveryState, String?)] = [:]
        var waited: Duration?
        var metrics = ""
    }

    let contents = Mutex(Contents())
    let backends: [String]

    init(_ backends: [String] = ["ios", "ios-dev", "android", "huawei", "news"]) { self.backends = backends }

    var accepted: [JSONObject] { contents.withLock { $0.accepted } }

    func devices(of app: String, after cursor: DeviceCursor?, limit: Int) async throws(PushError) -> DevicePage {
        DevicePage([], next: nil)
    }

    func backend(for device: Device, among names: [String]?) -> String? { nil }

    func accept(_ notification: JSONObject, idempotencyKey: String) async throws(PushError) -> NotificationID {
        throw PushError(.invalidRequest, "the door sends whole requests")
    }

    func accept(
        _ notifications: [JSONObject],
        idempotencyKey: String?,
        request: [UInt8]
    ) async throws(ModuleProblem) -> [ModuleAcceptance] {
        let result = contents.withLock { contents -> Result<[ModuleAcceptance], ModuleProblem> in
            if let problem = contents.problem { return .failure(problem) }
            contents.keys.append(idempotencyKey)
            return .success(
                notifications.map { notification in
                    if let sentence = contents.refuse(notification) { return .refused(sentence) }
                    contents.accepted.append(notification)
                    return .accepted(NotificationID(rawValue: Int64(contents.accepted.count)))
                }
            )
        }
        return try result.get()
    }

    func outcomes(
        of notifications: [NotificationID],
        within span: Duration
    ) async throws(PushError) -> [NotificationID: [ModuleDelivery]] {
        contents.withLock { contents in
            contents.waited = span
            var outcomes: [NotificationID: [ModuleDelivery]] = [:]
            for id in notifications {
                let to = contents.accepted[Int(id.rawValue) - 1]["to"]
                outcomes[id] = (to?["tokens"]?.arrayValue ?? []).map { token in
                    let value = token["token"]?.stringValue ?? ""
                    let end = contents.ends[value] ?? (.acceptedByPlatform, nil)
                    let service = TokenService(rawValue: token["service"]?.stringValue ?? "")
                    return ModuleDelivery(.token(DeviceToken(value, service: service)), end.0, reason: end.1)
                }
            }
            return outcomes
        }
    }

    func problem(with token: DeviceToken) -> String? {
        token.value.isEmpty || token.value.contains(" ") ? "malformed_token: it is blank" : nil
    }

    func states(of notification: NotificationID) async throws(PushError) -> [String: DeliveryState] { [:] }

    func metrics() async -> String { contents.withLock { $0.metrics } }
}

/// The door in front of a gateway of a test.
struct Door {
    let module: GorushModule
    let gate: FakeGate

    init(_ gate: FakeGate = FakeGate(), _ adjust: (inout GorushOptions) -> Void = { _ in }) {
        var options = GorushOptions()
        options.apple = GorushOptions.Apple(production: "ios", development: "ios-dev")
        options.topics = ["com.example.news": GorushOptions.Apple(production: "news")]
        options.environment = .production
        options.google = "android"
        options.huawei = "huawei"
        adjust(&options)
        module = GorushModule(options)
        self.gate = gate
    }

    func push(_ body: String, headers: [HTTPHeader] = []) async throws(ModuleProblem) -> ModuleAnswer {
        let request = ModuleRequest(method: "POST", path: "/api/push", headers: headers, body: Array(body.utf8))
        return try await module.answer(request, through: gate)
    }

    func get(_ path: String) async throws(ModuleProblem) -> ModuleAnswer {
        try await module.answer(ModuleRequest(method: "GET", path: path), through: gate)
    }

    /// Sends one entry, and returns the notifications that it became.
    func map(_ entry: String) async throws -> [JSONValue] {
        let before = gate.accepted.count
        let answer = try await push(#"{"notifications":[\#(entry)]}"#)
        if !answer.logs.isEmpty { throw Refused(logs: answer.logs) }
        return gate.accepted[before...].map { .object($0) }
    }

    struct Refused: Error, CustomStringConvertible {
        let logs: [JSONValue]
        var description: String { logs.map(\.text).joined(separator: "\n") }
    }
}

extension ModuleAnswer {
    var text: String { String(decoding: body, as: UTF8.self) }
    var json: JSONValue { (try? JSONValue(parsing: body)) ?? .null }
    var logs: [JSONValue] { json["logs"]?.arrayValue ?? [] }
    func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}
