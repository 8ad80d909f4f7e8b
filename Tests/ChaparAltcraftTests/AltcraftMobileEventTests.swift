import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparAltcraft

/// Events of an app's own, over real sockets.
///
/// Source: the code of altcraft/ios-sdk and altcraft/android-sdk 1.0.x, read 2026-11.
@Suite("Altcraft: mobile events", .timeLimit(.minutes(1)))
struct AltcraftMobileEventTests {
    private static let at = Date(timeIntervalSince1970: 1_760_000_200)

    private static let purchase = CustomEvent(
        "purchase",
        data: ["price": 990, "currency": "RUB", "is_gift": false, "note": nil],
        options: [
            "pixel": "sandbox-pixel", "client_id": "c-1", "message": "m-7f31c0", "matching_type": "email",
            "matching": ["email": "ada@example.com"], "profile_fields": ["bonus": ["action": "incr", "value": 5]],
            "subscription": ["channel": "email", "resource_id": 7, "email": "ada@example.com"],
            "utm": ["campaign": "autumn", "source": "push", "medium": ""],
        ]
    )

    @Test("All that an event says goes into the parts that the SDK sends, and nothing that is empty")
    func parts() async throws {
        try await Harness.run { harness in
            let reporter = try #require(harness.backend.customEvents)
            let device = DeviceRecord.sample(attributes: ["time_zone": "Asia/Kolkata"])
            let attempt = OutboxAttempt(at: Self.at)
            #expect(reporter.issues(in: Self.purchase, of: device).isEmpty)
            let answer = try await reporter.report(Self.purchase, of: device, as: attempt)
            #expect(answer["http_code"] == 200)
            let seen = try #require(harness.simulator.mobileEvents.first)
            #expect(seen.name == "purchase" && seen.pixel == "sandbox-pixel" && seen.time == 1_760_000_200)
            let texts = [
                "tz": "-330", "t": "1760000200", "aci": "c-1", "wn": "purchase", "mm": "email", "cn": "autumn",
                "cs": "push",
            ]
            #expect(seen.texts == texts)
            let values: [String: JSONValue] = [
                "wd": ["price": 990, "currency": "RUB", "is_gift": false], "mi": "m-7f31c0",
                "ma": ["email": "ada@example.com"], "pf": ["bonus": ["action": "incr", "value": 5]],
                "sn": ["channel": "email", "resource_id": 7, "email": "ada@example.com"],
            ]
            #expect(seen.values == values)
            #expect(seen.requestID == attempt.id.uuidString.lowercased())
            let told = try #require(harness.events.all.last)
            #expect(told.eventCode == 237 && told.value?["name"] == "purchase")
            #expect(told.message == "successful request: event/post. Event name: purchase")
        }
    }

    @Test("An event with a name alone goes to the section's pixel; a repeat has the same id")
    func least() async throws {
        try await Harness.run(adjust: { $0.pixel = "sandbox-pixel" }) { harness in
            let attempt = OutboxAttempt(at: Self.at)
            for _ in 0..<2 {
                _ = try await harness.mobile.report(CustomEvent("Вход"), of: .sample(), as: attempt)
            }
            let seen = harness.simulator.mobileEvents
            #expect(seen.map(\.count) == [2] && seen.first?.values.isEmpty == true)
            #expect(seen.first?.texts == ["tz": "0", "t": "1760000200", "aci": "", "wn": "Вход"])
        }
    }

    static let mistakes: [(CustomEvent, [String])] = [
        (CustomEvent("buy"), ["#/options/pixel missing"]),
        (CustomEvent(" ", options: ["pixel": "p"]), ["#/name missing"]),
        (CustomEvent("buy", data: ["a": [1]], options: ["pixel": "p"]), ["#/data/a not_primitive"]),
        (CustomEvent("buy", data: ["a": ["b": 1]], options: ["pixel": "p"]), ["#/data/a not_primitive"]),
        (CustomEvent("buy", options: ["pixel": 5]), ["#/options/pixel wrong_type"]),
        (CustomEvent("buy", options: ["pixel": "p", "pixell": "q"]), ["#/options/pixell unknown_field"]),
        (CustomEvent("buy", options: ["pixel": "p", "utm": "x"]), ["#/options/utm wrong_type"]),
        (CustomEvent("buy", options: ["pixel": "p", "utm": ["term": "x"]]), ["#/options/utm/term unknown_field"]),
        (CustomEvent("buy", options: ["pixel": "p", "utm": ["source": 1]]), ["#/options/utm/source wrong_type"]),
        (CustomEvent("buy", options: ["pixel": "p", "matching": "x"]), ["#/options/matching wrong_type"]),
        (
            CustomEvent("buy", options: ["pixel": "p", "profile_fields": ["a": ["action": "grow"]]]),
            ["#/options/profile_fields/a invalid_field"]
        ),
        (
            CustomEvent("buy", options: ["pixel": "p", "subscription": ["channel": "fax"]]),
            ["#/options/subscription/channel invalid_subscription"]
        ),
        (
            CustomEvent("buy", options: ["pixel": "p", "subscription": ["channel": "sms", "phone": "1"]]),
            ["#/options/subscription/resource_id invalid_subscription"]
        ),
        (
            CustomEvent("buy", options: ["pixel": "p", "subscription": ["channel": "viber", "resource_id": 1]]),
            ["#/options/subscription/cc_data invalid_subscription"]
        ),
    ]

    @Test("An event that the platform would refuse is an error with the field, without a request", arguments: mistakes)
    func wrong(event: CustomEvent, issues: [String]) async throws {
        try await Harness.run { harness in
            let found = harness.mobile.issues(in: event, of: .sample())
            #expect(found.map { "\($0.pointer) \($0.code)" } == issues)
            let error = await failure { () async throws(PushError) in
                _ = try await harness.mobile.report(custom: event, of: .sample(), as: OutboxAttempt(at: Self.at))
            }
            let number = issues[0].hasSuffix("not_primitive") ? 472 : 474
            #expect(error?.code == .invalidRequest && error?.reason == "\(number)" && harness.codes == [number])
            #expect(harness.simulator.counters.requests == 0)
        }
    }

    @Test("A pixel that is not known is a refusal, and silence of the platform is worth another try")
    func refused() async throws {
        try await Harness.run { harness in
            let event = CustomEvent("buy", options: ["pixel": "nobody's"])
            let attempt = OutboxAttempt(at: Self.at, number: 16)
            let error = await failure { () async throws(PushError) in
                _ = try await harness.mobile.report(custom: event, of: .sample(), as: attempt)
            }
            #expect(error?.reason == "437" && error?.code == .invalidRequest)
            #expect(harness.events.all.last?.message?.hasSuffix(", name: buy") == true)
            harness.simulator.add([FaultRule(.answer(FaultAnswer(503, "no")))])
            let later = await failure { () async throws(PushError) in
                _ = try await harness.mobile.report(custom: Self.purchase, of: .sample(), as: attempt)
            }
            #expect(later?.code == .unavailable && harness.codes.suffix(2) == [537, 485])
        }
    }

    /// Forms that the simulator refuses.
    static let forms: [(name: String, change: @Sendable (inout [MultipartForm.Part]) -> Void)] = [
        ("no name", { $0.removeAll { $0.name == "wn" } }), ("no time", { $0.removeAll { $0.name == "t" } }),
        ("no zone", { $0.removeAll { $0.name == "tz" } }), ("no client", { $0.removeAll { $0.name == "aci" } }),
        ("time as words", { $0[1] = .text("t", "now") }), ("another part", { $0.append(.text("x", "y")) }),
        ("values as text", { $0.append(.text("wd", "{}")) }), ("a list", { $0.append(.json("wd", [1])) }),
        ("not flat", { $0.append(.json("wd", ["a": ["b": 1]])) }), ("twice", { $0.append($0[0]) }),
    ]

    @Test("The simulator is as strict as the SDK's code shows the form", arguments: forms.indices)
    func strict(index: Int) async throws {
        try await Harness.run { harness in
            var issues: [Finding] = []
            let event = AltcraftMobileEvent(CustomEvent("buy"), pixel: "sandbox-pixel", issues: &issues)
            var request = AltcraftRequest.mobile(event, at: 1, zone: 0)
            var parts = request.form?.parts ?? []
            Self.forms[index].change(&parts)
            request.form = MultipartForm(parts: parts)
            let made = request
            let context = AltcraftRequestContext(
                action: .mobile,
                device: .sample(),
                attempt: OutboxAttempt(at: Self.at)
            )
            let error = await failure { () async throws(PushError) in
                _ = try await harness.backend.client.perform(context) { _ in made }
            }
            #expect(error?.reason == "437", "\(Self.forms[index].name)")
            #expect(harness.simulator.mobileEvents.isEmpty)
        }
    }
}
