import Foundation
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparService

/// A service that answers nonsense costs at most the certainty of its own messages.
///
/// `CHAPAR_FUZZ=20000` runs so many cases, `CHAPAR_FUZZ=1234...1234` just that one.
@Suite("A service of one's own: broken peers", .timeLimit(.minutes(5)))
struct ServiceBrokenPeerTests {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)

    @Test("Every recipient has one outcome, and nothing is accepted that the service did not accept")
    func outcomes() async throws {
        for seed in BrokenAnswers.seeds(2_000) {
            let answers = Recorder<Result<HTTPAnswer, HTTPFailure>>()
            let transport = ScriptedTransport { call in
                var broken = BrokenAnswers(seed: seed)
                let result = broken.next(instead: Self.good(call.body))
                answers.add(result)
                return result
            }
            guard let url = HTTPBaseURL(url: "https://service.test/push") else {
                throw ConformanceFailure("no address")
            }
            let backend = try ServiceBackend(
                options: ServiceOptions(
                    url: url,
                    secret: Secret("a secret of more than 24 bytes"),
                    audience: BackendAudience(services: [Harness.own], forms: [.user, .topic])
                ),
                context: BackendContext(name: "pager", http: transport, time: InstantTime(Self.now), logger: quiet)
            )
            let recipients = (0..<6).map { Harness.token("t-\($0)") } + [.topic("news")]
            let reports = Recorder<DeliveryReport>()
            let request = PushRequest(.sample, to: recipients.map { Addressee($0) })
            await backend.send([request]) { for report in $0 { reports.add(report) } }
            #expect(reports.all.map(\.recipient).sorted() == Array(0..<7), "case \(seed)")
            let accepted = Set(answers.all.flatMap(Self.accepted))
            for report in reports.all {
                let id = request.recipients[report.recipient].messageID.description
                Self.judge(report.outcome, isAccepted: accepted.contains(id), seed)
            }
            await backend.shutdown(grace: .zero)
        }
    }

    private static func judge(_ outcome: DeliveryOutcome, isAccepted: Bool, _ seed: Int) {
        switch outcome {
        case .accepted: #expect(isAccepted, "case \(seed): accepted by nobody")
        case .refused(let refusal):
            #expect(refusal.reason.utf8.count <= 64 && refusal.reason.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F })
            #expect((refusal.detail ?? "").count <= 300, "case \(seed)")
            if let death = refusal.invalidation {
                #expect(death.asOf <= now && refusal.kind == .token, "case \(seed): a death of later")
            }
            switch refusal.advice {
            case .retry(let pause?), .slowBackend(let pause?), .slowRecipient(let pause?):
                #expect(pause >= .zero && pause <= .seconds(86_400), "case \(seed): \(pause)")
            default: break
            }
        case .unknown(let unknown):
            #expect(unknown.reason.utf8.count <= 64, "case \(seed)")
        }
    }

    /// Returns the answer of a service that accepts everything but one message.
    private static func good(_ body: [UInt8]) -> JSONValue {
        let messages = (try? JSONValue(parsing: body))?["messages"]?.arrayValue ?? []
        let ids = messages.flatMap { $0["recipients"]?.arrayValue ?? [] }.compactMap { $0["id"] }
        let outcomes = ids.enumerated().map { place, id -> JSONValue in
            place == 2
                ? [
                    "id": id, "outcome": "refused", "kind": "token", "reason": "gone", "dead": true,
                    "dead_since": 1_700_000_000,
                    "retry_after": 5, "retry": "never",
                ] : ["id": id, "outcome": "accepted", "platform_id": "p"]
        }
        return ["outcomes": .array(outcomes)]
    }

    /// The ids that an answer accepts, read without the product's code.
    private static func accepted(_ result: Result<HTTPAnswer, HTTPFailure>) -> [String] {
        guard case .success(let answer) = result, answer.status == 200 else { return [] }
        let outcomes = (try? JSONValue(parsing: answer.body))?["outcomes"]?.arrayValue ?? []
        return outcomes.compactMap { $0["outcome"] == "accepted" ? $0["id"]?.stringValue : nil }
    }
}
