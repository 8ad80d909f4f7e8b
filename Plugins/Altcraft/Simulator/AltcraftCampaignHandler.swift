internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// The two calls of the platform's user API that start a trigger campaign for one profile.
///
/// Checks requests against the tables of Altcraft's developer guide, "Trigger launch (API call)" and "Profile import +
/// trigger campaign launch", read 2026-11. An unknown parameter is refused, which the platform may not do. The answer
/// to a start for an unknown profile is not documented: here it is accepted and delivered to no device.
struct AltcraftCampaignHandler {
    private static let path = "/api/v1.1/campaigns/triggers/"
    private static let both: Set<String> = [
        "token", "format", "content", "attach", "custom_data", "matching", "email", "phone", "profile_id", "field_name",
        "field_value", "resource_id",
    ]
    private static let start = both.union(["id", "custom_request", "subscription_filter"])
    private static let importAndStart = both.union([
        "trigger_id", "data", "db_id", "skip_triggers", "skip_invalid_subscriptions", "detect_geo", "timeout",
    ])

    private let simulator: AltcraftSimulator

    init(_ simulator: AltcraftSimulator) { self.simulator = simulator }

    func answer(_ request: SandboxRequest, _ now: Date) throws(AltcraftHandler.Refusal) -> SandboxAnswer {
        let isImport: Bool
        switch (request.method, request.path) {
        case ("POST", Self.path + "start/"), ("POST", Self.path + "start"): isImport = false
        case ("POST", Self.path + "import_and_start"): isImport = true
        default: throw AltcraftHandler.refuse(404, "no such path")
        }
        guard let body = (try? JSONValue(parsing: request.body))?.objectValue else {
            throw AltcraftHandler.refuse(400, "the body is no JSON object")
        }
        let rules = simulator.rules
        let token = request.header("authorization").map { String($0.dropFirst("Bearer ".count)) }
        guard (token ?? body["token"]?.stringValue) == rules.apiToken else {
            throw AltcraftHandler.refuse(401, "API token required")
        }
        try check(body, isImport)
        guard let trigger = body[isImport ? "trigger_id" : "id"]?.integerValue, rules.triggers.contains(trigger) else {
            throw AltcraftHandler.refuse(400, "no such trigger")
        }
        let (mode, identifier) = try matching(body)
        let database = body["db_id"]?.integerValue ?? rules.campaignDatabase
        let key = "\(mode) \(identifier)"
        var changes: AltcraftFieldChanges?
        if isImport, let data = body["data"]?.objectValue {
            let current = simulator.withState { state in
                state.profiles.first { $0.databaseID == database && $0.key == key }?.fields ?? JSONObject()
            }
            changes = try AltcraftFieldChanges(data, known: rules.profileFields, current: current)
        }
        simulator.withState { state in
            // The platform assigns profile ids: an import finds a profile by its id, but never creates one.
            if isImport, mode != "profile_id",
                !state.profiles.contains(where: { $0.databaseID == database && $0.key == key })
            {
                _ = state.addProfile(AltcraftCaller(databaseID: database, key: key, modes: [mode]))
            }
            for place in state.profiles.indices where state.profiles[place].isFound(mode, key, identifier) {
                guard database == state.profiles[place].databaseID || mode == "profile_id" else { continue }
                if let changes { state.profiles[place].fields = changes.applied(to: state.profiles[place].fields) }
            }
            state.launchCount += 1
            let delay = Self.delay(body["timeout"])
            let launch = AltcraftLaunch(number: state.launchCount, request: body, delay: delay, reached: 0)
            state.launches.append(launch)
            if state.launches.count > 10_000 { state.launches.removeFirst(5_000) }
            let start = AltcraftStart(
                launch: launch.number,
                due: now.addingTimeInterval(TimeInterval(delay)),
                mode: mode,
                key: key,
                identifier: identifier,
                databaseID: database,
                title: body["content"]?["title"]?.stringValue ?? ""
            )
            state.starts.append(start)
            state.advance(at: now)
        }
        return AltcraftHandler.json(200, ["error": 0, "error_text": "Successful operation"])
    }

    private func check(_ body: JSONObject, _ isImport: Bool) throws(AltcraftHandler.Refusal) {
        let known = isImport ? Self.importAndStart : Self.start
        for (name, value) in body {
            guard known.contains(name) else { throw AltcraftHandler.refuse(400, "there is no parameter \(name)") }
            let isGood: Bool
            switch name {
            case "content", "custom_data", "data", "custom_request", "subscription_filter":
                isGood = value.objectValue != nil
            case "attach": isGood = value.arrayValue != nil
            case "skip_triggers", "skip_invalid_subscriptions", "detect_geo": isGood = value.boolValue != nil
            case "id", "trigger_id", "resource_id", "db_id": isGood = value.integerValue != nil
            case "field_value": isGood = value.stringValue != nil || value.integerValue != nil
            case "timeout":
                isGood =
                    value.objectValue?.allSatisfy {
                        ["days", "hours", "minutes"].contains($0.name) && $0.value.integerValue.map { $0 >= 0 } ?? false
                    } ?? false
            default: isGood = value.stringValue != nil
            }
            guard isGood else { throw AltcraftHandler.refuse(400, "\(name) is of another type") }
        }
        guard !isImport || body["data"] != nil else { throw AltcraftHandler.refuse(400, "data is missing") }
    }

    /// Returns the matching mode and the identifier; the mode is `email` unless the request says otherwise.
    private func matching(_ body: JSONObject) throws(AltcraftHandler.Refusal) -> (mode: String, identifier: String) {
        let mode = body["matching"]?.stringValue ?? "email"
        let names: [String]
        switch mode {
        case "email", "email_profile": names = ["email"]
        case "phone", "profile_id": names = [mode]
        case "custom": names = ["field_name", "field_value"]
        default: throw AltcraftHandler.refuse(400, "there is no matching \(mode)")
        }
        let identifier = names.compactMap { name in
            body[name].flatMap { $0.stringValue ?? $0.integerValue.map(String.init) }
        }
        guard identifier.count == names.count, !identifier.contains("") else {
            throw AltcraftHandler.refuse(400, "the identifier is missing")
        }
        return (mode, identifier.joined(separator: "/"))
    }

    /// Returns the delay in seconds.
    private static func delay(_ timeout: JSONValue?) -> Int64 {
        let parts: [(String, Int64)] = [("days", 86_400), ("hours", 3_600), ("minutes", 60)]
        return parts.reduce(0) { sum, part in
            let count = min(timeout?[part.0]?.integerValue ?? 0, 100_000)
            return sum.adding(clamping: count.multiplied(clamping: part.1))
        }
    }
}

extension AltcraftProfile {
    /// Returns whether a campaign's matching finds the profile.
    func isFound(_ mode: String, _ key: String, _ identifier: String) -> Bool {
        self.key == key || mode == "profile_id" && id == identifier
    }
}

/// A campaign start that is scheduled for a profile.
struct AltcraftStart: Sendable {
    var launch: Int
    var due: Date
    var mode: String
    var key: String
    var identifier: String
    var databaseID: Int64
    var title: String
}

extension AltcraftState {
    /// Runs the starts that are due: each subscribed subscription of the profile gets the message.
    mutating func startDue(at now: Date) {
        let due = starts.filter { $0.due <= now }
        starts.removeAll { $0.due <= now }
        for start in due {
            var reached = 0
            for place in profiles.indices where profiles[place].isFound(start.mode, start.key, start.identifier) {
                guard start.databaseID == profiles[place].databaseID || start.mode == "profile_id" else { continue }
                for index in profiles[place].subscriptions.indices
                where profiles[place].subscriptions[index].status == "subscribed" {
                    profiles[place].subscriptions[index].received.append(start.title)
                    if profiles[place].subscriptions[index].received.count > 100 {
                        profiles[place].subscriptions[index].received.removeFirst()
                    }
                    reached += 1
                }
            }
            if let place = launches.firstIndex(where: { $0.number == start.launch }) {
                launches[place].reached = reached
            }
        }
    }
}
