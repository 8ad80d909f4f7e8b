import Foundation
import ChaparCore
import ChaparComposition
import ChaparGateway
import Synchronization

/// Sends straight to the platforms through the backends of a configuration: one attempt with each, fallbacks included.
///
/// The plan's rules are those of the gateway, with one attempt at each backend: a message that a platform wants later
/// goes to the next backend, or is reported as such. Retries are a gateway's work.
struct DirectSender: MessageSender {
    let batchSize = 1000
    private let snapshot: GatewaySnapshot
    private let kinds: [String]
    private let preview: PreviewTransport?

    /// Makes a sender; with `preview`, on which the backends were built, requests are shown and nothing is sent.
    init(_ loaded: LoadedConfiguration, kinds: [String], preview: PreviewTransport? = nil) {
        snapshot = GatewaySnapshot(configuration: loaded.configuration, backends: loaded.backends)
        self.kinds = kinds
        self.preview = preview
    }

    func form(of token: DeviceToken) -> DeviceToken {
        do throws(InvalidToken) {
            return try snapshot.backends.lazy.map(\.backend).checked(token)
        } catch {
            return token
        }
    }

    func close() async {
        for configured in snapshot.backends { await configured.backend.shutdown(grace: .seconds(2)) }
    }

    func send(_ messages: [NumberedMessage], report: @escaping @Sendable ([SendResult]) -> Void) async throws {
        var pending: [Pending] = []
        var requests: [DirectRequest] = []
        for message in messages {
            do throws(DirectRequest.Refused) {
                let request = try DirectRequest(
                    reading: JSONValue.object(message.request).bytes,
                    snapshot: snapshot,
                    knownKinds: kinds
                )
                for warning in request.warnings {
                    let sentence = "\(warning.pointer): \(warning.detail)".onOneLine
                    Shell.complain("line \(message.line): warning: \(sentence)")
                }
                for (recipient, plan) in request.recipients {
                    pending.append(
                        Pending(request: requests.count, line: message.line, recipient: recipient, plan: plan)
                    )
                }
                requests.append(request)
            } catch {
                report([Self.refused(message.line, error)])
            }
        }
        let ways = Dictionary(grouping: pending, by: \.plan)
        await withDiscardingTaskGroup { [requests] tasks in
            for (plan, own) in ways { tasks.addTask { await offer(own, requests, plan, report) } }
        }
    }

    /// A recipient with the index of its request.
    private struct Pending: Sendable {
        var request: Int
        var line: Int
        var recipient: Recipient
        var plan: DeliveryPlan
        var messageID = MessageID.random()
    }

    /// Sends through the backends of a plan, one attempt with each, by the plan's rules.
    private func offer(
        _ pending: [Pending],
        _ requests: [DirectRequest],
        _ plan: DeliveryPlan,
        _ report: @escaping @Sendable ([SendResult]) -> Void
    ) async {
        var groups: [[Pending]] = []
        for one in pending {
            if groups.last?.first?.request == one.request {
                groups[groups.count - 1].append(one)
            } else {
                groups.append([one])
            }
        }
        let batch = groups.map { group in
            Self.request(requests[group[0].request].notification, group)
        }
        let members = groups
        let last = Mutex<[MessageID: String]>([:])
        let chain = FallbackBackend(
            plan.backends.compactMap { name in
                snapshot.backends.first { $0.name == name }.map { NamedBackend(name, $0.backend) }
            },
            onUnknown: plan.onUnknown,
            unknownWait: plan.unknownWait,
            retry: .never,
            deadline: .seconds(120) + plan.unknownWait,
            time: SystemTime(),
            observe: { entry in last.withLock { $0[entry.messageID] = entry.backend } }
        )
        await chain.send(batch) { [preview] reports in
            report(
                reports.map { answer in
                    let one = members[answer.request][answer.recipient]
                    let backend = last.withLock { $0[one.messageID] } ?? plan.backends.first ?? ""
                    return Self.result(one, backend, answer.outcome, preview)
                }
            )
        }
    }

    private static func request(_ notification: PushNotification, _ group: [Pending]) -> PushRequest {
        PushRequest(notification, to: group.map { Addressee($0.recipient, messageID: $0.messageID) })
    }

    private static func result(
        _ one: Pending,
        _ backend: String,
        _ outcome: DeliveryOutcome,
        _ preview: PreviewTransport?
    ) -> SendResult {
        var result = SendResult(
            line: one.line,
            recipient: one.recipient.storedForm,
            ending: .sent,
            backend: backend
        )
        // A preview ignores the plugin's outcome: no platform gave the answer.
        if let preview, let request = preview.request(of: one.messageID, to: one.recipient) {
            result.ending = .preview
            result.request = request
            return result
        }
        switch outcome {
        case .accepted(let acceptance):
            if preview != nil {
                result.ending = .preview
                return result
            }
            result.id = acceptance.platformID
            result.status = acceptance.status
        case .refused(let refusal):
            switch refusal.advice {
            case .never, .parkBackend: result.ending = .refused
            case .retry, .slowRecipient, .slowBackend: result.ending = .later
            }
            result.status = refusal.status
            result.reason = refusal.reason
            result.detail = refusal.detail
        case .unknown where preview != nil:
            // It was made of an answer that no platform gave.
            result.ending = .preview
        case .unknown(let unknown):
            result.ending = .unknown
            result.reason = unknown.reason
            result.detail = unknown.detail ?? "It may have been delivered: no answer came."
        }
        return result
    }

    private static func refused(_ line: Int, _ error: DirectRequest.Refused) -> SendResult {
        SendResult(
            line: line,
            recipient: "",
            ending: .refused,
            reason: error.issues.first?.code ?? "invalid_request",
            detail: error.issues.map { "\($0.pointer): \($0.detail)" }.joined(separator: "\n         ")
        )
    }
}
