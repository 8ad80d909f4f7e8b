import Foundation
import ChaparCore

/// Sends through a gateway, and follows each message for at most the given time.
struct GatewaySender: MessageSender {
    let batchSize: Int
    private let client: GatewayClient
    private let maximumWait: Duration

    /// Makes a sender; `maximumWait` is the longest wait for the end of each message, zero not to wait.
    init(_ client: GatewayClient, maximumWait: Duration) {
        self.client = client
        self.maximumWait = maximumWait
        batchSize = maximumWait > .zero ? 100 : 1000
    }

    func close() async { await client.close() }

    func send(_ messages: [NumberedMessage], report: @escaping @Sendable ([SendResult]) -> Void) async throws {
        let list = JSONValue.array(messages.map { .object($0.request) })
        let body = JSONValue.object(["notifications": list]).bytes
        let answer = try await client.postPatiently("/v1/notifications/batch", body)
        let items = answer.json["notifications"]?.arrayValue ?? []
        guard items.count == messages.count else { return try refuse(messages, answer, report) }
        var accepted: [(line: Int, id: String)] = []
        for (message, item) in zip(messages, items) {
            if let id = item["id"]?.stringValue {
                for warning in item["warnings"]?.arrayValue ?? [] {
                    let pointer = warning["pointer"]?.words ?? ""
                    Shell.complain("line \(message.line): warning: \(pointer): \(warning["detail"]?.words ?? "")")
                }
                accepted.append((message.line, id))
            } else {
                let problem = item["problem"] ?? .null
                let sentence = GatewayClient.Answer(status: 422, json: problem).problem
                report([
                    SendResult(
                        line: message.line,
                        recipient: "",
                        ending: .refused,
                        status: 422,
                        reason: GatewayClient.Answer(status: 422, json: problem).code,
                        detail: sentence
                    )
                ])
            }
        }
        try await follow(accepted, report)
    }

    /// Handles an answer that accepted nothing: a problem of the key or of the gateway ends the command, any other
    /// concerns single messages.
    private func refuse(
        _ messages: [NumberedMessage],
        _ answer: GatewayClient.Answer,
        _ report: @Sendable ([SendResult]) -> Void
    ) throws {
        let code = answer.code
        switch answer.status {
        case 401, 403:
            throw CommandFailure("the gateway refused the key: \(answer.problem)", .usage)
        case 409, 429, 500...:
            report(
                messages.map {
                    SendResult(
                        line: $0.line,
                        recipient: "",
                        ending: .later,
                        status: answer.status,
                        reason: code,
                        detail: answer.problem
                    )
                }
            )
        default:
            report(
                messages.map {
                    SendResult(
                        line: $0.line,
                        recipient: "",
                        ending: .refused,
                        status: answer.status,
                        reason: code,
                        detail: answer.problem
                    )
                }
            )
        }
    }

    /// Waits for the ends of messages together, and reports the state of each by then.
    func follow(
        _ accepted: [(line: Int, id: String)],
        _ report: @Sendable ([SendResult]) -> Void
    ) async throws {
        guard maximumWait > .zero else {
            report(
                accepted.map { SendResult(line: $0.line, recipient: "", ending: .accepted, id: $0.id, status: 202) }
            )
            return
        }
        let deadline = ContinuousClock.now + maximumWait
        var pause = Duration.milliseconds(20)
        for (line, id) in accepted {
            while true {
                let items = try await deliveries(of: id)
                let isOver = items.allSatisfy {
                    DeliveryState(rawValue: $0["state"]?.stringValue ?? "")?.isFinal ?? false
                }
                if isOver || ContinuousClock.now >= deadline {
                    report(items.map { Self.result(line, id, $0) })
                    break
                }
                try await Task.sleep(for: pause)
                pause = min(pause * 2, .milliseconds(500))
            }
        }
    }

    private func deliveries(of id: String) async throws -> [JSONValue] {
        var items: [JSONValue] = []
        var cursor = ""
        repeat {
            let path = "/v1/notifications/\(id)/deliveries?limit=1000" + (cursor.isEmpty ? "" : "&cursor=\(cursor)")
            let answer: GatewayClient.Answer
            do throws(HTTPFailure) {
                answer = try await client.get(path)
            } catch {
                throw client.unreachable(error)
            }
            guard answer.status == 200 else {
                throw CommandFailure(
                    "the message was accepted, but its status cannot be read: \(answer.problem)",
                    .usage
                )
            }
            items += answer.json["items"]?.arrayValue ?? []
            cursor = answer.json["next"]?.stringValue ?? ""
        } while !cursor.isEmpty
        return items
    }

    private static func result(_ line: Int, _ id: String, _ delivery: JSONValue) -> SendResult {
        let state = DeliveryState(rawValue: delivery["state"]?.stringValue ?? "") ?? .unknown
        let last = delivery["attempts"]?.arrayValue?.last
        var result = SendResult(
            line: line,
            recipient: delivery["recipient"]?.stringValue ?? "",
            ending: .accepted,
            backend: delivery["backend"]?.stringValue,
            id: delivery["platform_id"]?.stringValue ?? id,
            status: last?["status"]?.integerValue.map { Int(count: $0) },
            reason: last?["reason"]?.stringValue,
            detail: last?["detail"]?.stringValue
        )
        switch state {
        case .acceptedByPlatform, .delivered, .opened: result.ending = .sent
        case .failed, .expired, .cancelled: result.ending = .refused
        case .unknown: result.ending = .unknown
        case .queued, .scheduled, .sending, .retrying:
            // The outcome of the last attempt is no verdict on the message.
            let attempt = [result.status.map { "\($0)" }, result.reason, result.detail].compactMap(\.self)
            result.status = 202
            result.reason = state.rawValue
            result.detail =
                (attempt.isEmpty ? "" : "Last attempt: \(attempt.joined(separator: " ")). ")
                + "The gateway goes on with it: GET /v1/notifications/\(id)"
        }
        if result.ending == .refused, result.reason == nil { result.reason = state.rawValue }
        return result
    }
}
