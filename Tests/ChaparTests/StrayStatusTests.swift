import Foundation
import ChaparCore
import Testing

@testable import ChaparAPNs
@testable import ChaparFCM
@testable import ChaparHMS

/// What `StrayAnswerTests` asks of the rows of rejections, asked of answers that have no row: a status alone, as of
/// something on the way, and an access token that cannot be had.
@Suite("One odd status among a thousand good answers", .timeLimit(.minutes(2)), .about("apns", "fcm", "hms"))
struct StrayStatusTests {
    /// The statuses that stop a backend for longer, each with the document that asks for it.
    private static let pausing: [String: String] = [
        "fcm 429":
            "Firebase, Best practices for sending at scale: after a 429 without Retry-After wait 60 s",
        "hms 503":
            "Huawei, Push Kit, downlink message API: 503 is the flow control of the app or the system, so send less",
    ]

    private static func apns(_ answer: HTTPAnswer) -> DeliveryOutcome {
        let context = APNsRejections.Context(
            started: .distantPast,
            isOwnTopic: true,
            isBroadcast: false,
            isSecondTry: true
        )
        switch APNsRejections.verdict(on: answer, context) {
        case .final(let outcome), .replay(let outcome): return outcome
        }
    }

    private static func fcm(_ answer: HTTPAnswer) -> DeliveryOutcome {
        let context = FCMRejections.Context(started: .distantPast, target: .android, isSecondTry: true)
        switch FCMRejections.verdict(on: answer, context) {
        case .final(let outcome), .replay(let outcome), .hold(_, _, let outcome): return outcome
        }
    }

    private static func isStopped(by outcome: DeliveryOutcome) -> Bool {
        StrayAnswerTests.ended(beside: outcome, at: 499) < 999
    }

    @Test("Every status without a body lets the other 999 end within 2 s, but for those that say why not")
    func statuses() {
        var stopping: Set<String> = []
        for status in 300...599 {
            let answer = HTTPAnswer(status: status)
            if Self.isStopped(by: Self.apns(answer)) { stopping.insert("apns \(status)") }
            if Self.isStopped(by: Self.fcm(answer)) { stopping.insert("fcm \(status)") }
            guard let hms = HMSRejections.outcome(on: answer) else {
                Issue.record("HMS does not judge \(status)")
                continue
            }
            if Self.isStopped(by: hms) { stopping.insert("hms \(status)") }
        }
        #expect(stopping == Set(Self.pausing.keys))
    }

    @Test("So does an access token that cannot be had once, unless the token endpoint names a time")
    func tokens() {
        let judges: [(PushError) -> DeliveryOutcome] = [FCMRejections.outcome(of:), HMSOutcomes.outcome(of:)]
        let codes: [PushError.Code] = [.unavailable, .rateLimited, .badAnswer, .credentialsRefused]
        for judge in judges {
            for code in codes {
                let error = PushError(code, "There is no token.", reason: "no_token")
                #expect(!Self.isStopped(by: judge(error)), "\(code)")
            }
            let asked = PushError(.unavailable, "There is no token.", reason: "no_token", retryAfter: .seconds(5))
            #expect(Self.isStopped(by: judge(asked)))
        }
    }
}
