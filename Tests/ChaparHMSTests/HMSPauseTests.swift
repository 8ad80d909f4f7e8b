import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparHMS

/// Tokens that Huawei wants left alone: how long, for which messages, and what the caller is told.
@Suite("Tokens that Huawei wants left alone", .timeLimit(.minutes(2)))
struct HMSPauseTests {
    static let visible = PushNotification(title: "Parcel", body: "Out for delivery")
    static let silent = PushNotification(data: ["order": "4711"], isSilent: true)

    @Test("A token without right is left alone for a week, and keeps its registration")
    func noRight() async throws {
        var configuration = HMSSimulatorConfiguration()
        configuration.partialForm = .reasons
        let time = ManualTime()
        try await Harness.run(configuration, time: time) { harness in
            let good = harness.register(0..<1)
            harness.simulator.setDevice(HMSDevice(state: .refused(reason: "noRight")), tokens: ["moved"])
            #expect(await harness.send(good + [android("moved")])[1].refusal?.reason == "noRight")
            let sends = harness.simulator.counters.sends
            let refusal = try #require(await harness.send([android("moved")])[0].refusal)
            #expect(refusal.reason == "noRight" && refusal.advice == .never && refusal.invalidation == nil)
            #expect(refusal.detail?.contains("before 2026-01-08T00:00:00.000Z") == true, "\(refusal)")
            #expect(harness.simulator.counters.sends == sends, "nothing went out")
            #expect(await harness.send(good)[0].acceptance != nil, "others are not concerned")
            time.advance(by: .seconds(7 * 86_400))
            harness.simulator.setDevice(HMSDevice(), tokens: ["moved"])
            #expect(await harness.send([android("moved")])[0].acceptance != nil, "then one message tries again")
        }
    }

    /// Status, the word of the refusal, whether the message waits, whether a silent message goes, seconds of the pause.
    ///
    /// The clock begins at midnight UTC, which is 8 o'clock at Huawei.
    static let statuses: [(Int, String?, Bool, Bool, Int)] = [
        (6, "not_shown", false, true, 604_800), (10, "device_inactive", false, false, 604_800),
        (201, "controlled", false, false, 604_800), (102, "daily_limit", true, false, 57_600),
        (256, "frequency_limit", true, false, 3_600), (15, nil, false, true, 0), (27, nil, false, true, 0),
        (51, nil, false, true, 0), (999, nil, false, true, 0),
    ]

    @Test("A receipt's status says whether the token is left alone, and until when", arguments: statuses)
    func receipts(status: Int, reason: String?, waits: Bool, silentGoes: Bool, seconds: Int) async throws {
        let time = ManualTime(HMSReceiptTests.now)
        try await Harness.run(
            time: time,
            change: { options, _ in
                options.receipts = HMSReceiptOptions(user: "chapar", secret: Secret("sandbox"), encoding: .raw)
            },
            { harness in
                let recipients = harness.register(0..<1)
                func report(_ status: Int) throws {
                    let body = """
                        {"statuses":[{"token":"\(androidToken(0))","requestId":"r-\(status)",
                        "deliveryStatus":{"result":\(status),"timestamp":\(time.now.millisecondsSince1970)}}]}
                        """
                    let reader = try #require(harness.backend.receipts)
                    _ = try reader.receipts(in: HMSReceiptTests.callback(body))
                }
                try report(status)
                let refusal = await harness.backend.send(Self.visible, to: recipients)[0].refusal
                #expect(refusal?.reason == reason)
                #expect(
                    refusal == nil || refusal?.advice == (waits ? .slowRecipient(after: .seconds(seconds)) : .never)
                )
                let silent = await harness.backend.send(Self.silent, to: recipients)[0]
                #expect((silent.acceptance != nil) == silentGoes)
                time.advance(by: .seconds(max(0, seconds - 1)))
                #expect(await (harness.backend.send(Self.visible, to: recipients)[0].refusal != nil) == (reason != nil))
                time.advance(by: .seconds(1))
                #expect(await harness.backend.send(Self.visible, to: recipients)[0].acceptance != nil)
            }
        )
    }

    @Test("A delivery ends a pause; a receipt of the future makes none longer; memory is bounded")
    func edges() throws {
        let pauses = HMSTokenPauses()
        let now = HMSReceiptTests.now
        let reader = HMSReceipts(
            HMSReceiptOptions(user: "chapar", secret: Secret("sandbox"), encoding: .raw),
            pauses: pauses
        )
        func report(_ status: Int, at moment: Date) throws {
            let body = """
                {"statuses":[{"token":"t","requestId":"r","deliveryStatus":{"result":\(status),
                "timestamp":\(moment.millisecondsSince1970)}}]}
                """
            _ = try reader.receipts(in: HMSReceiptTests.callback(body))
        }
        try report(256, at: now.addingTimeInterval(86_400))
        #expect(pauses.refusal(of: "t", isSilent: false, at: now) != nil)
        #expect(pauses.refusal(of: "t", isSilent: false, at: now.addingTimeInterval(3_600)) == nil)
        try report(10, at: now)
        try report(256, at: now)
        #expect(pauses.refusal(of: "t", isSilent: false, at: now)?.reason == "device_inactive", "the longer one counts")
        try report(0, at: now)
        #expect(pauses.refusal(of: "t", isSilent: false, at: now) == nil)
        for number in 0...HMSTokenPauses.capacity { pauses.add("noRight", of: "t-\(number)", at: now) }
        #expect(pauses.count == HMSTokenPauses.capacity)
    }
}
