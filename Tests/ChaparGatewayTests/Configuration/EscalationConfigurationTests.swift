import ChaparComposition
import ChaparCore
import ChaparGateway
import Testing

/// A backend with batches of one content, and perhaps reports of its platform.
private struct ReportingBackend: PushBackend {
    let kind: BackendKind = "batch"
    let audience = BackendAudience(services: [.androidHuawei])
    let batching: RequestBatching? = RequestBatching(limit: 100, isMixed: false)
    let receipts: (any ReceiptReader)?

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {}

    struct Reader: ReceiptReader {
        var acknowledgement: [UInt8] { [] }
        func receipts(in callback: ReceiptCallback) throws(ReceiptRefusal) -> [DeliveryReceipt] { [] }
    }

    static let factory = BackendFactory("batch", summary: "One with batches.") { section, _ in
        ReportingBackend(receipts: section.bool("reports", default: false) ? Reader() : nil)
    }
}

@Suite("The configuration of backends that take over")
struct EscalationConfigurationTests {
    private static func load(_ use: String, apps: String = "default: { receipts: true }") throws -> LoadedConfiguration
    {
        let text = """
            apps: { \(apps) }
            backends:
              ios: { kind: sample, token: x }
              sms: { kind: sample, token: y }
              voice: { kind: sample, token: z }
              huawei: { kind: batch }
              told: { kind: batch, reports: true }
            routes: [ { use: \(use) } ]
            """
        let registry = try BackendRegistry([SampleBackend.factory, ReportingBackend.factory])
        return try ConfigurationLoader(registry: registry).load(text)
    }

    @Test(
        "Everything that the key says is in the plan",
        arguments: [
            ("{ use: [sms] }", Escalation(step: 1, after: .seconds(120))),
            (
                "{ after: 30, unless: opened, use: [sms, voice], max_per_day: 1000 }",
                Escalation(step: 1, after: .seconds(30), unless: .opened, maximumPerDay: 1000)
            ),
            ("{ use: sms, max_per_day: 0 }", Escalation(step: 1, after: .seconds(120), maximumPerDay: 0)),
        ]
    )
    func read(key: String, rule: Escalation) throws {
        let loaded = try Self.load("{ fallback: [ios], fallback_after: 9, escalate: \(key) }")
        let plan = try #require(loaded.configuration.routes.first?.plan)
        #expect(plan.escalation == rule)
        #expect(plan.backends == (key.contains("voice") ? ["ios", "sms", "voice"] : ["ios", "sms"]))
        #expect(plan.fallbackAfter == .seconds(9))
    }

    @Test("The platform's own reports of arrivals are enough, without reports of the app")
    func platformReports() throws {
        let loaded = try Self.load("{ fallback: [told], escalate: { use: [sms] } }", apps: "")
        #expect(loaded.configuration.routes.first?.plan.escalation != nil)
    }

    @Test("A route without the key has no such plan")
    func none() throws {
        let loaded = try Self.load("{ fallback: [ios, sms] }")
        #expect(loaded.configuration.routes.first?.plan.escalation == nil)
    }

    @Test(
        "An escalation that cannot work is refused, with its place and what to do",
        arguments: [
            // Nothing would report an arrival: all messages would go on.
            ("{ fallback: [ios], escalate: { use: [sms] } }", "", "escalate", "receipts: true"),
            // One report would stand for a whole request.
            ("{ fallback: [huawei], escalate: { use: [sms] } }", "default: { receipts: true }", "escalate", "huawei"),
            (
                "{ fallback: [ios, huawei], escalate: { use: [sms] } }", "default: { receipts: true }", "escalate",
                "huawei"
            ),
            ("{ fallback: [told], escalate: { use: [sms], unless: opened } }", "", "escalate", "unless: delivered"),
            ("{ fan_out: [ios], escalate: { use: [sms] } }", "default: { receipts: true }", "escalate", "fallback"),
            ("{ fallback: [ios], escalate: { after: 5 } }", "default: { receipts: true }", "escalate.use", ""),
            ("{ fallback: [ios], escalate: { use: [] } }", "default: { receipts: true }", "escalate.use", "ios"),
            ("{ fallback: [ios], escalate: { use: [ios] } }", "default: { receipts: true }", "escalate.use", "once"),
            ("{ fallback: [ios], escalate: { use: [sns] } }", "default: { receipts: true }", "escalate.use", "sms"),
            (
                "{ fallback: [ios], escalate: { use: [sms], after: 0 } }", "default: { receipts: true }",
                "escalate.after", ""
            ),
            (
                "{ fallback: [ios], escalate: { use: [sms], unless: read } }", "default: { receipts: true }",
                "escalate.unless", ""
            ),
            (
                "{ fallback: [ios], escalate: { use: [sms], max_per_day: -1 } }", "default: { receipts: true }",
                "escalate.max_per_day", ""
            ),
        ] as [(String, String, String, String)]
    )
    func refused(use: String, apps: String, place: String, fix: String) throws {
        let error = #expect(throws: ConfigurationError.self) { try Self.load(use, apps: apps) }
        #expect(error?.issues.map(\.path) == ["routes[0].use.\(place)"], "\(String(describing: error))")
        guard !fix.isEmpty else { return }
        #expect(error?.issues.first?.fix?.contains(fix) == true, "\(String(describing: error))")
    }
}
