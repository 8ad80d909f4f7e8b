import ArgumentParser
import ChaparCore
import Foundation
import Testing

@testable import ChaparCommands

@Suite("chapar top")
struct TopTests {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)

    private static func backend(_ name: String, _ worker: JSONObject = [:], _ health: JSONObject = [:]) -> JSONValue {
        var all: JSONObject = [
            "in_flight": 3, "window": 64, "waiting": 1_200, "claimed": 3, "oldest_age": nil, "parked": false,
            "breaker": "closed", "invalidations_quarantined": false,
        ]
        for (key, value) in worker { all[key] = value }
        var state: JSONObject = ["status": "ok", "connections": 1, "credential_expiries": [:]]
        for (key, value) in health { state[key] = value }
        return ["name": .string(name), "kind": "apns", "worker": .object(all), "health": .object(state)]
    }

    private static func page(
        _ backends: [JSONValue],
        series: JSONValue = .null,
        campaigns: [JSONValue] = [],
        expiries: JSONValue = [:]
    ) -> TopPage {
        TopPage(
            now: now,
            range: "1h",
            backends: [
                "backends": .array(backends), "credential_expiries": expiries, "credential_warning_days": 30,
            ],
            series: series,
            campaigns: ["items": .array(campaigns)]
        )
    }

    private static let series: JSONValue = [
        "series": [
            "accepted": [1_000, nil, 2_056], "handed_over": [1_000, nil, 2_004], "arrived": [0, nil, 1_200],
            "failed": [30, nil, 3], "expired": [0, nil, 0], "unknown": [0, nil, 1], "retried": [0, nil, 0],
            "oldest": [0, nil, 150],
        ]
    ]

    @Test("has the numbers of the API: sums of the range, and what waits now")
    func numbers() {
        let page = Self.page([Self.backend("ios"), Self.backend("web", ["waiting": 0])], series: Self.series)
        let totals = page.totals.map { "\($0.name) \($0.count ?? -1)" }
        #expect(
            totals == [
                "accepted 3056", "on_its_way 1206", "handed_over 3004", "arrived 1200", "failed 33", "expired 0",
                "unknown 1",
            ]
        )
        #expect(page.json["totals"]?["accepted"] == 3_056)
        #expect(page.json["series"] == Self.series)
        let lines = page.lines(columns: 80)
        #expect(lines.contains { $0.contains("3,056") && $0.contains("1,206") && $0.contains("3,004") })
        #expect(lines.contains { $0.hasPrefix("handed over ▅·█ 2,004") })
        #expect(lines.contains { $0.hasPrefix("queue age   ▁·█ 2 min") })
    }

    @Test("says that nothing needs a hand, and how old the oldest unsent one is")
    func calm() {
        let calm = Self.page([Self.backend("ios")])
        #expect(calm.lines(columns: 80)[2] == "✓ Nothing needs a hand. Nothing is overdue.")
        let late = Self.page([Self.backend("ios", ["oldest_age": 2.4])])
        #expect(late.lines(columns: 80)[2] == "✓ Nothing needs a hand. Oldest unsent: 2 s.")
        let counts = late.totals.map(\.count)
        #expect(counts == [nil, 1_203, nil, nil, nil, nil, nil], "a gateway without counts over time")
    }

    @Test("names what needs a hand first, each with its reason")
    func troubles() {
        let paused: JSONValue = [
            "id": "05A",
            "audience": [
                "name": "Winter", "phase": "running", "paused": true, "pause_reason": "stop_rule", "progress": 0.71,
                "enqueued": 710_201,
            ],
        ]
        let page = Self.page(
            [
                Self.backend("calm"), Self.backend("parked", ["parked": true, "pause_reason": "InvalidProviderToken"]),
                Self.backend("open", ["breaker": "open", "breaker_reason": "503"]),
                Self.backend("held", ["invalidations_quarantined": true]),
                Self.backend("ends", [:], ["credential_expiries": ["client_certificate": "2027-01-23T09:00:00Z"]]),
                Self.backend("later", [:], ["credential_expiries": ["client_certificate": "2027-03-23T09:00:00Z"]]),
                ["name": "old", "gone": true, "worker": ["waiting": 7]],
            ],
            campaigns: [paused],
            expiries: ["api_key.shop": "2027-01-14T08:00:00Z"]
        )
        #expect(
            page.troubles.map { "\($0.mark) \($0.name) \($0.text)" } == [
                "✕ parked parked: InvalidProviderToken", "✕ open breaker open: 503",
                "✕ held stopped: too many dead tokens, see devices quarantined",
                "! ends client_certificate ends in 8 days (2027-01-23)", "✕ old is not configured, and 7 wait for it",
                "✕ gateway api_key.shop ended on 2027-01-14", "⏸ Winter paused itself: stop_rule",
            ]
        )
        let lines = page.lines(columns: 80)
        #expect(lines[2] == "Needs a hand (7)")
        #expect(lines.contains { $0.contains("██████████████░░░░░░ 71 %  710,201  paused") })
    }

    @Test("keeps to its columns, and shows no control character of a name")
    func width() {
        let name = String(repeating: "n", count: 200) + "\u{1B}[2J"
        let series: JSONValue = ["series": ["handed_over": .array((0..<288).map { .integer($0 * 1_000_000) })]]
        let page = Self.page(
            [Self.backend(name, ["parked": true, "pause_reason": .string(name)])],
            series: series,
            campaigns: [["id": .string(name), "audience": ["phase": "running", "progress": 2]]]
        )
        for columns in [40, 80] {
            for line in page.lines(columns: columns) {
                #expect(line.count <= columns, "\(line)")
                #expect(!line.unicodeScalars.contains { $0.value < 0x20 })
            }
        }
    }

    @Test("draws bars from the lowest to the highest, several values in one, and a point for none")
    func bars() {
        #expect(TopPage.spark([0, 1, 8], columns: 10) == "▁▂█")
        #expect(TopPage.spark([nil, 0, 0], columns: 10) == "·▁▁")
        #expect(TopPage.spark([1, 2, nil, nil, 4], columns: 3) == "▅·█")
        #expect(TopPage.spark([], columns: 3).isEmpty)
        #expect([0, 999, 1_000, -1_234_567].map(TopPage.text) == ["0", "999", "1,000", "-1,234,567"])
        #expect([99_999, 100_000, 9_999_999, 12_345_678].map(TopPage.short) == ["99,999", "100 k", "9999 k", "12 M"])
        #expect([1, 119, 120, 7_200, 172_800].map(TopPage.age) == ["1 s", "119 s", "2 min", "2 h", "2 d"])
    }

    @Test("draws a frame from the top of the screen, and no more lines than it has")
    func frame() {
        let lines = (1...5).map { Substring("line \($0)") }
        #expect(LiveScreen.frame([], note: nil, rows: 3) == "\u{1B}[H\u{1B}[J")
        let frame = LiveScreen.frame(lines, note: nil, rows: 3)
        #expect(frame == "\u{1B}[Hline 1\u{1B}[K\r\nline 2\u{1B}[K\r\n… 3 more lines\u{1B}[K\u{1B}[J")
        let noted = LiveScreen.frame(Array(lines.prefix(1)), note: "no\u{1B}[2J answer", rows: 3)
        #expect(noted.hasPrefix("\u{1B}[Hline 1\u{1B}[K\r\nno"))
        #expect(!noted.contains("\u{1B}[2J"))
    }
}

@Suite("Names that the running gateway completes")
struct NameCompletionTests {
    @Test("follow the names before the last comma, and none has a blank or a control character")
    func candidates() {
        let names = ["ios", "", "a b", "x\ny", "\u{1B}[2J", "web"]
        #expect(NameCompletion.candidates(names, "") == ["ios", "web"])
        #expect(NameCompletion.candidates(names, "fcm,i") == ["fcm,ios", "fcm,web"])
    }

    @Test("come from the gateway of the line")
    func address() {
        let words = [
            "chapar", "dead", "list", "--url", "'https://push.example'", "--app=shop", "--backend", "io",
            "--allow-plain-http",
        ]
        let gateway = NameCompletion.gateway(words)
        #expect(gateway?.url == "https://push.example")
        #expect(gateway?.app == "shop")
        #expect(gateway?.allowPlainHTTP == true)
        let wrong = NameCompletion.gateway(["chapar", "--url", "nonsense"])
        #expect(wrong?.url == nil, "a wrong address completes nothing")
    }
}

@Suite("Watching a running gateway", .timeLimit(.minutes(2)), .about("apns"))
struct WatchingTests {
    /// Completes the word after `option`, as a shell's script does.
    private static func complete(
        _ command: [String],
        _ option: String,
        _ url: String
    ) async throws -> (status: Int32, names: [String]) {
        let line = ["chapar"] + command + ["--url", url, option, ""]
        let result = try await Program.run(
            ["---completion"] + command + ["--", option, "\(line.count - 1)", "0"] + line,
            environment: ["SAP_SHELL": "bash", "SAP_SHELL_VERSION": "5.2"]
        )
        return (result.status, result.lines)
    }

    @Test("top writes once what the API has, lists repeat until they are interrupted, and names complete")
    func gateway() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let top = try await Program.run(["top", "--once", "--json", "--url", gateway.url])
            #expect(top.status == 0, "\(top.errors)")
            let page = try JSONValue(parsing: Array(top.output.utf8))
            #expect(page["backends"]?.arrayValue?.contains { $0["name"] == "ios" } == true)
            #expect(page["series"]?["step"] == 60)
            #expect(page["totals"]?["on_its_way"] == 0)
            let text = try await Program.run(["top", "--url", gateway.url])
            #expect(text.status == 0 && text.output.contains("Nothing needs a hand"), "\(text)")
            #expect(!text.output.contains("\u{1B}"), "no terminal, no place to draw in")

            let list = try Child(["backends", "list", "--json", "--watch", "--every", "1", "--url", gateway.url])
            defer { list.kill() }
            try await Program.wait("a second look") {
                list.output.split(separator: "\n").filter { $0.contains(#""name":"ios""#) }.count >= 2 ? true : nil
            }
            list.send(SIGINT)
            #expect(try await list.end(within: .seconds(20)).status == 0)

            let backends = try await Self.complete(["deliveries"], "--backend", gateway.url)
            #expect(backends.status == 0 && backends.names.contains("ios"), "\(backends)")
            let silent = try await Self.complete(["deliveries"], "--backend", "http://127.0.0.1:1")
            #expect(silent.names.isEmpty && silent.status == 0, "\(silent)")
        }
    }
}
