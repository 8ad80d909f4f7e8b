internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// IDPush: two routes, forms only, over OneSignal's table of players.
///
/// The simulator of OneSignal owns it and its state, since IDPush passes messages on to OneSignal. A refusal is a body
/// with status 0, under HTTP 200 where the service does so.
struct IDPushHandler: SandboxHandler {
    private static let shared = ["project_id", "device_type", "game_version", "device_model", "device_os"]

    let simulator: OneSignalSimulator

    init(_ simulator: OneSignalSimulator) { self.simulator = simulator }

    func subject(of request: SandboxRequest) -> SandboxSubject {
        SandboxSubject(token: request.path.split(separator: "/").last.map(String.init))
    }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        simulator.withState { $0.counters.idPushRequests += 1 }
        let json: JSONValue? = fault.reason.map { ["status": 0, "message": .string($0)] }
        return fault.plain(json: json?.bytes ?? [], now: now)
    }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        simulator.withState { $0.counters.idPushRequests += 1 }
        return SandboxReply(answer: route(request))
    }

    private func route(_ request: SandboxRequest) -> SandboxAnswer {
        let segments = request.path.split(separator: "/", omittingEmptySubsequences: false).map {
            String($0).removingPercentEncoding ?? String($0)
        }
        let isAdd = request.path == "/api/v1/device/add"
        let isEdit = segments.count == 6 && request.path.hasPrefix("/api/v1/device/edit/")
        guard isAdd || isEdit else { return Self.no("no such route", 404) }
        guard request.method == "POST" else { return Self.no("POST only", 405) }
        let type = request.header("content-type")?.lowercased() ?? ""
        guard type.hasPrefix("application/x-www-form-urlencoded"),
            let fields = FormFields.parse(String(decoding: request.body, as: UTF8.self))
        else { return Self.no("the body is no form", 422) }
        for name in Self.shared where fields[name] == nil { return Self.no("\(name) is missing", 422) }
        guard Int(fields["device_type"] ?? "").flatMap(OneSignalHandler.type) != nil else {
            return Self.no("device_type is not valid", 422)
        }
        guard fields["project_id"] == simulator.rules.projectID else { return Self.no("project is not active") }
        return isAdd ? add(fields) : edit(fields, segments[5])
    }

    private func add(_ fields: [String: String]) -> SandboxAnswer {
        guard let token = fields["identifier"], !token.isEmpty else { return Self.no("identifier is missing", 422) }
        guard ["1", "2"].contains(fields["test_type"] ?? "") else { return Self.no("test_type is not valid", 422) }
        guard fields["notification_types"] == "1" else { return Self.no("notification_types is not valid", 422) }
        let type = Int(fields["device_type"] ?? "").flatMap(OneSignalHandler.type) ?? "iOSPush"
        let id = simulator.withState { state in
            let id = state.addPlayer(type, token, user: nil)
            state.players[id]?.project = fields["project_id"]
            OneSignalHandler.edit(Self.json(fields), id, in: &state)
            return id
        }
        return Self.reply(200, ["status": 1, "player_id": .string(id)])
    }

    private func edit(_ fields: [String: String], _ id: String) -> SandboxAnswer {
        guard fields["player_id"] != nil else { return Self.no("player_id is missing", 422) }
        guard simulator.player(id) != nil else {
            return Self.no("No user with this id found", simulator.rules.idPushAnswers404 ? 404 : 200)
        }
        var changes = Self.json(fields)
        if let text = fields["tags"] {
            guard text.isEmpty || (try? JSONValue(parsing: Array(text.utf8)))?.objectValue != nil else {
                return Self.no("tags is no JSON object", 422)
            }
            changes["tags"] = try? JSONValue(parsing: Array(text.utf8))
        }
        let owner = simulator.player(id)?.user ?? ""
        guard simulator.withState({ $0.hasRoom(for: changes["tags"]?.objectValue ?? JSONObject(), of: owner) }) else {
            return Self.no("too many tags")
        }
        let edited = changes
        simulator.withState { OneSignalHandler.edit(edited, id, in: &$0) }
        return Self.reply(200, ["status": 1])
    }

    /// Returns the fields in OneSignal's types: numbers where it needs numbers.
    private static func json(_ fields: [String: String]) -> JSONObject {
        var object = JSONObject()
        for (name, value) in fields {
            let isNumber = ["notification_types", "test_type", "device_type", "timezone"].contains(name)
            object[name] = isNumber ? Int64(value).map { .integer($0) } ?? .string(value) : .string(value)
        }
        return object
    }

    private static func no(_ message: String, _ status: Int = 200) -> SandboxAnswer {
        reply(status, ["status": 0, "message": .string(message)])
    }

    private static func reply(_ status: Int, _ value: JSONValue) -> SandboxAnswer {
        SandboxAnswer(status: status, headers: [HTTPHeader("content-type", "application/json")], body: value.bytes)
    }
}
