import Foundation
import PushCore
import PushTesting
import Testing

@testable import PushAPNs

/// The kits are worth something only if a backend that breaks a promise does not pass.
@Suite("The conformance kits catch broken promises", .timeLimit(.minutes(1)))
struct ConformanceKitTests {
    /// A backend that does one thing wrong.
    struct Broken: PushBackend {
        enum Way: String, CaseIterable {
            case reportsTwice, reportsOneTooFew, reportsStrangers, sendsDryRuns, killsForeignTokens, blamesMessage
            case hasNoID, leaksTokens, goesOnAfterShutdown, passesLarge, hasOddKind
        }

        var way: Way
        var good: APNsBackend
        var kind: BackendKind { way == .hasOddKind ? "a kind" : good.kind }
        var audience: BackendAudience { good.audience }

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            var requests = requests
            if way == .sendsDryRuns {
                for index in requests.indices { requests[index].notification.isDryRun = false }
            }
            let sent = requests
            await good.send(sent) { reports in report(reports.flatMap { bend($0, sent) }) }
        }

        private func bend(_ report: DeliveryReport, _ requests: [PushRequest]) -> [DeliveryReport] {
            func with(_ outcome: DeliveryOutcome) -> [DeliveryReport] {
                [DeliveryReport(request: report.request, recipient: report.recipient, outcome: outcome)]
            }
            switch (way, report.outcome) {
            case (.reportsTwice, _): return [report, report]
            case (.reportsOneTooFew, _): return report.recipient == 0 ? [] : [report]
            case (.reportsStrangers, _):
                return [DeliveryReport(request: report.request, recipient: 99, outcome: report.outcome), report]
            case (.hasNoID, .accepted): return with(.accepted(Acceptance()))
            case (.killsForeignTokens, .refused(var refusal)):
                refusal.invalidation = .init(asOf: .now, isCertain: true)
                return with(.refused(refusal))
            case (.blamesMessage, .refused(var refusal)):
                refusal.kind = .message
                return with(.refused(refusal))
            case (.leaksTokens, .refused(var refusal)):
                let recipient = requests[report.request].recipients[report.recipient].recipient
                if case .token(let token) = recipient { refusal.detail = "refused \(token.value)" }
                return with(.refused(refusal))
            case (.goesOnAfterShutdown, .refused(let refusal)) where refusal.reason == "cancelled":
                return with(.accepted(Acceptance(platformID: "x")))
            case (.passesLarge, .refused(let refusal)) where refusal.reason == "payload_too_large":
                return with(.accepted(Acceptance(platformID: "x")))
            default: return [report]
            }
        }

        func shutdown(grace: Duration) async { await good.shutdown(grace: grace) }
    }

    @Test("A backend that breaks a promise fails some check", arguments: Broken.Way.allCases)
    func broken(way: Broken.Way) async throws {
        var failures: [String] = []
        for check in BackendConformance.checks {
            do { try await check.run(try Self.subject(way)) } catch { failures.append("\(check): \(error)") }
        }
        #expect(!failures.isEmpty)
    }

    @Test("A good one passes all of them over the same platform", arguments: BackendConformance.checks)
    func good(check: ConformanceCheck<BackendConformance.Subject>) async throws {
        try await check.run(try Self.subject(nil))
    }

    static func subject(_ way: Broken.Way?) throws -> BackendConformance.Subject {
        let dead = String(repeating: "d", count: 64)
        let transport = ScriptedTransport { call in
            if call.path.hasSuffix(dead) { return .success(.apns(410, "Unregistered", timestamp: 1)) }
            return .success(HTTPAnswer(status: 200, headers: [HTTPHeader("apns-id", call.header("apns-id") ?? "")]))
        }
        let backend = try APNsBackend.scripted(transport)
        return BackendConformance.Subject(
            backend: way.map { Broken(way: $0, good: backend) } ?? backend,
            recipient: { recipient(deviceToken($0)) },
            deadRecipient: recipient(dead),
            foreignRecipient: .token(DeviceToken("fcm:APA91", service: .androidFirebase)),
            taken: { transport.calls.count },
            payloadLimit: 4096
        )
    }
}
