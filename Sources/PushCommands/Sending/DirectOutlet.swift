import Foundation
import PushCore
import PushGateway
import Synchronization

/// Sends straight to the platforms through the backends of a configuration: one attempt each, fallbacks included.
///
/// What a platform wants later is reported as such and not tried again: that is a gateway's work.
struct DirectOutlet: Outlet {
    let batchSize = 1000
    private let snapshot: GatewaySnapshot
    private let kinds: [String]
    private let preview: PreviewTransport?

    /// Makes an outlet; with `preview`, which the backends were built on, nothing is sent and requests are shown.
    init(_ loaded: LoadedConfiguration, kinds: [String], preview: PreviewTransport? = nil) {
        snapshot = GatewaySnapshot(configuration: loaded.configuration, backends: loaded.backends)
        self.kinds = kinds
        self.preview = preview
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
        while !pending.isEmpty { pending = await round(pending, requests, report) }
    }

    /// A recipient on its way through its plan.
    private struct Pending: Sendable {
        var request: Int
        var line: Int
        var recipient: Recipient
        var plan: DeliveryPlan
        var step = 0
        var messageID = MessageID.random()

        var backend: String { plan.backends[step] }
    }

    /// Offers everything once to the backend it has reached; gives back what goes on to the next one.
    private func round(
        _ pending: [Pending],
        _ requests: [DirectRequest],
        _ report: @escaping @Sendable ([SendResult]) -> Void
    ) async -> [Pending] {
        await withTaskGroup(of: [Pending].self) { group in
            for configured in snapshot.backends {
                let own = pending.filter { $0.backend == configured.name }
                if own.isEmpty { continue }
                group.addTask { await offer(own, requests, to: configured, report) }
            }
            return await group.reduce(into: []) { $0 += $1 }
        }
    }

    private func offer(
        _ pending: [Pending],
        _ requests: [DirectRequest],
        to configured: BackendRegistry.ConfiguredBackend,
        _ report: @escaping @Sendable ([SendResult]) -> Void
    ) async -> [Pending] {
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
        let onward = Mutex<[Pending]>([])
        await configured.backend.send(batch) { [preview] reports in
            var results: [SendResult] = []
            for answer in reports {
                var one = members[answer.request][answer.recipient]
                if Self.goesOn(one, answer.outcome) {
                    one.step += 1
                    onward.withLock { $0.append(one) }
                } else {
                    results.append(Self.result(one, answer.outcome, preview))
                }
            }
            if !results.isEmpty { report(results) }
        }
        return onward.withLock { $0 }
    }

    private static func request(_ notification: PushNotification, _ group: [Pending]) -> PushRequest {
        let expiration = notification.timeToLive.map { span -> PushRequest.Expiration in
            span > .zero ? .at(Int64(Date().timeIntervalSince1970 + span.inSeconds)) : .immediately
        }
        return PushRequest(
            notification,
            to: group.map { Addressee($0.recipient, messageID: $0.messageID) },
            expiration: expiration
        )
    }

    /// The rules of the gateway's dispatcher, without its retries.
    private static func goesOn(_ one: Pending, _ outcome: DeliveryOutcome) -> Bool {
        guard one.step + 1 < one.plan.backends.count else { return false }
        switch outcome {
        case .accepted: return false
        case .refused(let refusal): return refusal.advice == .never || refusal.advice == .parkBackend
        case .unknown: return one.plan.onUnknown == .next
        }
    }

    private static func result(_ one: Pending, _ outcome: DeliveryOutcome, _ preview: PreviewTransport?) -> SendResult {
        var result = SendResult(
            line: one.line,
            recipient: one.recipient.storedForm,
            verdict: .sent,
            backend: one.backend
        )
        switch outcome {
        case .accepted(let acceptance):
            result.id = acceptance.platformID
            result.status = acceptance.status
            if let preview {
                result.verdict = .preview
                result.id = nil
                result.status = nil
                result.request = preview.request(of: one.messageID)
            }
        case .refused(let refusal):
            switch refusal.advice {
            case .never, .parkBackend: result.verdict = .refused
            case .retry, .slowRecipient, .slowBackend: result.verdict = .later
            }
            result.status = refusal.status
            result.reason = refusal.reason
            result.detail = refusal.detail
        case .unknown(let unknown):
            result.verdict = .unknown
            result.reason = unknown.reason
            result.detail = unknown.detail ?? "It may have been delivered: no answer came."
        }
        return result
    }

    private static func refused(_ line: Int, _ error: DirectRequest.Refused) -> SendResult {
        SendResult(
            line: line,
            recipient: "",
            verdict: .refused,
            reason: error.issues.first?.code ?? "invalid_request",
            detail: error.issues.map { "\($0.pointer): \($0.detail)" }.joined(separator: "\n         ")
        )
    }
}
