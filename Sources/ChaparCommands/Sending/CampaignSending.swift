import ChaparCore
import Foundation

/// Sends a message to an audience through a gateway, and follows it for at most the given time.
struct CampaignSending {
    let client: GatewayClient
    let form: OutputForm
    /// The longest time to follow it, in seconds; 0 not to.
    let wait: Double
    /// Whether the request is only the test of a campaign, to chosen devices.
    let isTest: Bool

    /// Sends a request, prints its id, and follows it.
    func send(_ request: JSONObject) async throws {
        let answer = try await client.postPatiently("/v1/notifications", JSONValue.object(request).bytes)
        guard answer.status == 202, let id = answer.json["id"]?.stringValue else {
            await client.close()
            throw CommandFailure(
                answer.problem,
                [429, 500, 502, 503, 504].contains(answer.status) ? .tryLater : .usage
            )
        }
        for warning in answer.json["warnings"]?.arrayValue ?? [] {
            Shell.complain("warning: \(warning["pointer"]?.words ?? ""): \(warning["detail"]?.words ?? "")")
        }
        if isTest {
            let tally: SendTally
            do {
                tally = try await follow(test: id)
            } catch {
                await client.close()
                throw error
            }
            await client.close()
            if tally.status != .success { throw tally.status }
            return
        }
        if wait > 0 {
            let campaign = try await CampaignFollower(client: client, id: id).follow(
                atMost: .milliseconds(clamping: wait * 1_000)
            )
            form.isJSON ? Shell.print(campaign) : Shell.print(CampaignText.lines(campaign).joined(separator: "\n"))
        } else if form.isJSON {
            Shell.print(answer.json)
        } else {
            Shell.print("accepted \(id): \(GatewayProgram.current.name) campaigns show \(id) --watch")
        }
        await client.close()
    }

    /// Follows a test, and prints the result for each of its devices.
    private func follow(test id: String) async throws -> SendTally {
        let tally = SendTally()
        let sender = GatewaySender(client, maximumWait: .milliseconds(clamping: wait * 1_000))
        try await sender.follow([(line: 1, id: id)]) { [form] results in
            tally.add(results)
            for result in results { form.isJSON ? Shell.print(result.json) : Shell.print(result.text) }
        }
        return tally
    }
}

/// Follows a campaign with a bar on a terminal, until it is over.
struct CampaignFollower {
    let client: GatewayClient
    let id: String

    /// Returns the campaign as it is at the end of the time, or once it is over or paused.
    func follow(atMost span: Duration?) async throws -> JSONValue {
        let deadline = span.map { ContinuousClock.now + $0 }
        var bar = ProgressBar(isShown: true)
        var pause = Duration.milliseconds(100)
        while true {
            let campaign = try await client.campaign(id)
            let audience = campaign["audience"]
            let phase = audience?["phase"]?.stringValue
            let counts = campaign["counts"]?.objectValue
            let waiting = ["queued", "scheduled", "sending", "retrying"].reduce(Int64(0)) {
                $0.adding(clamping: counts?[$1]?.integerValue ?? 0)
            }
            let isOver = campaign["ended_at"] != nil || (phase != "running" && waiting == 0)
            let isPaused = audience?["paused"]?.boolValue ?? false
            let isLast = isOver || isPaused || deadline.map { ContinuousClock.now >= $0 } ?? false
            let enqueued = Int(clamping: audience?["enqueued"]?.integerValue ?? 0)
            bar.update(
                done: max(0, enqueued - Int(clamping: waiting)),
                fraction: isOver ? 1 : audience?["progress"]?.numberValue,
                isLast: isLast
            )
            if isLast { return campaign }
            try await Task.sleep(for: pause)
            pause = min(pause * 2, .seconds(1))
        }
    }
}

/// A campaign in words.
enum CampaignText {
    /// Returns the lines about one campaign.
    static func lines(_ campaign: JSONValue) -> [String] {
        let audience = campaign["audience"]
        var lines = [line(campaign)]
        func number(_ name: String) -> Int64 { audience?[name]?.integerValue ?? 0 }
        lines.append("matched \(number("matched")), reached \(number("reached")), deliveries \(number("enqueued"))")
        let skipped = (audience?["skipped"]?.objectValue ?? [:]).map { "\($0.name) \($0.value.integerValue ?? 0)" }
        if !skipped.isEmpty { lines.append("skipped: " + skipped.joined(separator: ", ")) }
        let counts = (campaign["counts"]?.objectValue ?? [:]).map { "\($0.name) \($0.value.integerValue ?? 0)" }
        if !counts.isEmpty { lines.append("deliveries: " + counts.joined(separator: ", ")) }
        if let pace = audience?["pace"], pace.objectValue?.isEmpty == false { lines.append("pace: \(pace.text)") }
        return lines
    }

    /// Returns the line about a campaign in a list.
    static func line(_ campaign: JSONValue) -> String {
        let audience = campaign["audience"]
        let phase = audience?["phase"]?.words ?? ""
        let isPaused = audience?["paused"]?.boolValue ?? false
        let reason = audience?["pause_reason"]?.words.map { " (\($0))" } ?? ""
        let percent = Int(clamping: ((audience?["progress"]?.numberValue ?? 0) * 100).rounded(.down))
        let name = audience?["name"]?.words.map { " \"\($0)\"" } ?? ""
        return "\(campaign["id"]?.words ?? "") \(isPaused ? "paused\(reason)" : phase) \(percent) %\(name)"
    }
}

extension GatewayClient {
    /// Returns a campaign; throws when there is none, or the gateway gives no answer.
    func campaign(_ id: String) async throws -> JSONValue {
        let answer: Answer
        do throws(HTTPFailure) {
            answer = try await get("/v1/notifications/\(FormEncoding.encode(id))")
        } catch {
            throw unreachable(error)
        }
        guard answer.status == 200 else {
            throw CommandFailure(answer.problem, answer.status == 503 ? .tryLater : .usage)
        }
        guard answer.json["audience"] != nil else {
            throw CommandFailure("\(id.onOneLine) is no campaign: it was sent to recipients that are named", .usage)
        }
        return answer.json
    }
}
