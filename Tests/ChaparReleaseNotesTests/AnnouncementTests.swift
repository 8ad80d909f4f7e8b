import Foundation
import ChaparCore
import ChaparModules
import ChaparQueue
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparReleaseNotes

/// Announcing a version: specs/noskhekit.md section 14.
@Suite("Release notes: announcements", .timeLimit(.minutes(1)))
struct AnnouncementTests {
    private static func announce(_ harness: Harness, _ more: JSONObject = [:]) async throws(ModuleProblem) -> JSONValue
    {
        let body = JSONObject(dictionaryLiteral: ("version", "1.4.0")).merging(more)
        return try await harness.post("shop/announcements", .object(body)).json
    }

    @Test("Only devices with an older version get it, compared as numbers")
    func selection() async throws {
        let harness = Harness(versions: ["1.3.9", "1.4.0", "1.10.0", "garbage", nil])
        let answer = try await Self.announce(harness)
        #expect(harness.gate.reached == ["d0"])
        let expected: JSONObject = [
            "version": "1.4.0", "dry_run": false, "eligible": 1, "sent": 1, "failed": 0, "already_announced": 0,
            "up_to_date": 2, "unknown": 2, "unreachable": 0, "per_backend": ["ios": ["sent": 1, "failed": 0]],
        ]
        #expect(answer == .object(expected))
        let more = try await Self.announce(harness, ["treat_unknown_as_old": true])
        #expect(more["eligible"] == 3 && more["sent"] == 2 && more["already_announced"] == 1)
        #expect(harness.gate.reached.sorted() == ["d0", "d3", "d4"])
    }

    @Test("A version among the attributes counts where the device has no version of its own")
    func attribute() async throws {
        let harness = Harness(versions: [nil, nil, "1.0.0"])
        harness.gate.contents.withLock { contents in
            contents.devices[0].attributes["app_version"] = "1.3.9"
            contents.devices[1].attributes["app_version"] = "1.4.0"
            contents.devices[2].attributes["app_version"] = "9.9.9"
        }
        let answer = try await Self.announce(harness)
        #expect(harness.gate.reached == ["d0", "d2"])
        #expect(answer["unknown"] == 0 && answer["up_to_date"] == 1)
    }

    @Test("A device that does not allow notifications is left out, and counts nowhere")
    func allowed() async throws {
        let harness = Harness(versions: ["1.0", "1.0"])
        harness.gate.contents.withLock { $0.devices[0].attributes["notifications_allowed"] = false }
        let answer = try await Self.announce(harness)
        #expect(answer["eligible"] == 1 && harness.gate.reached == ["d1"])
    }

    @Test("The message is in every language, says what is new, and where to read it")
    func message() async throws {
        let harness = Harness(versions: ["1.3.2"]) { app in
            var style = NotesStyle()
            style.isRightToLeft = true
            style.whatsNew = .init(text: "تازه‌های", textColor: .name("label"))
            app.styles["fa"] = style
        }
        _ = try await Self.announce(harness)
        let request = try #require(harness.gate.accepted.first?.request)
        let expected: JSONObject = [
            "to": ["devices": ["d0"]],
            "content": [
                "title": ["en": "Shop 1.4.0", "fa": "تازه‌های ۱.۴.۰", "default": "Shop 1.4.0"],
                "data": [
                    "type": "release_notes", "app": "shop", "version": "1.4.0", "since": "1.3.2",
                    "url": "https://push.example.com/v1/apps/shop/versions.html?current=1.3.2#current",
                ],
                "body": ["en": "Dark theme\nFixes", "fa": "پوستهٔ تیره", "default": "Dark theme\nFixes"],
            ],
            "options": ["collapse_id": "release-notes-shop", "ttl": 604_800, "priority": "normal"],
        ]
        #expect(request == expected)
    }

    @Test("A body has three changes and 180 characters at most, cut between characters as people see them")
    func body() {
        #expect(AnnouncementTexts.body(["a", "", "b", "c", "d"]) == "a\nb\nc")
        let long = AnnouncementTexts.body([String(repeating: "👨‍👩‍👧", count: 200)])
        #expect(long.count == 180 && long.last == "…" && long.first == "👨‍👩‍👧")
        #expect(AnnouncementTexts.body([]) == "")
    }

    @Test("Devices with different versions or backends get notifications of their own, through the named backends only")
    func groups() async throws {
        let harness = Harness(versions: ["1.0", "1.0", "1.1", "1.0", "1.0"])
        let answer = try await Self.announce(harness, ["backends": ["ios"]])
        #expect(answer["sent"] == 3 && answer["unreachable"] == 2)
        #expect(answer["unsupported"]?["ios"]?.stringValue?.contains("as text") ?? false)
        let sinces = harness.gate.accepted.map { $0.request["content"]?["data"]?["since"]?.stringValue }
        #expect(sinces == ["1.0.0", "1.1.0"])
        #expect(harness.gate.accepted.allSatisfy { $0.request["backend"] == "ios" })
    }

    @Test("A dry run tells the numbers and sends nothing; too many recipients are refused whole")
    func limits() async throws {
        let harness = Harness(versions: ["1.0", "1.0", "1.0"])
        let dry = try await Self.announce(harness, ["dry_run": true])
        #expect(dry["eligible"] == 3 && dry["sent"] == 0 && harness.gate.accepted.isEmpty)
        let problem = await harness.problem { () throws(ModuleProblem) in
            try await harness.post("shop/announcements", ["version": "1.4.0", "max_recipients": 2])
        }
        #expect(problem?.status == 409 && harness.gate.accepted.isEmpty)
    }

    @Test("No device gets it twice: repeats, restarts and concurrent requests reach only devices without it")
    func ledger() async throws {
        let harness = Harness(versions: ["1.0", "1.1"])
        async let one = Self.announce(harness)
        async let two = Self.announce(harness)
        let sent = try await [one, two].compactMap { $0["sent"]?.integerValue }
        #expect(sent.sorted() == [0, 2] && harness.gate.reached.sorted() == ["d0", "d1"])
        let restarted = Harness(versions: ["1.0", "1.1", "1.2"], state: harness.state)
        let third = try await Self.announce(restarted)
        #expect(third["sent"] == 1 && third["already_announced"] == 2 && restarted.gate.reached == ["d2"])
        restarted.gate.contents.withLock { $0.states = ["d0": .failed, "d1": .acceptedByPlatform] }
        let fourth = try await Self.announce(restarted)
        #expect(fourth["sent"] == 1 && restarted.gate.reached == ["d2", "d0"])
    }

    @Test("A refused part is counted and stays open; a part that may have been accepted is sent again, once")
    func failures() async throws {
        let harness = Harness(versions: ["1.0"])
        harness.gate.contents.withLock { $0.refusal = PushError(.invalidRequest, "too large") }
        let refused = try await Self.announce(harness)
        #expect(refused["failed"] == 1 && refused["refusal"] == "too large")
        harness.gate.contents.withLock { $0.refusal = PushError(.unavailable, "the store is full") }
        let problem = await harness.problem { () throws(ModuleProblem) in
            try await harness.post("shop/announcements", ["version": "1.4.0"])
        }
        #expect(problem?.status == 503)
        harness.gate.contents.withLock { $0.refusal = nil }
        let restarted = Harness(versions: ["1.0"], state: harness.state)
        let answer = try await Self.announce(restarted)
        #expect(answer["already_announced"] == 1 && restarted.gate.reached == ["d0"])
    }

    /// The parts of three devices that a crash or another gateway left open, and the numbers of those that are refused.
    @Test(
        "A refused part, wherever it stands, is offered once, and its devices get the announcement",
        arguments: [[0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2]]
    )
    func refusedParts(refused: [Int]) async throws {
        let state = MemoryState()
        for number in 0..<3 {
            let part: JSONValue = [
                "request": ["to": ["devices": [.string("d\(number)")]]], "key": .string("part-\(number)"),
            ]
            try await state.saveState("release_notes/shop/announced/1.4.0/\(number)", part.bytes)
        }
        let harness = Harness(versions: ["1.0", "1.1", "1.2"], state: state)
        harness.gate.contents.withLock { $0.refusedKeys = Set(refused.map { "part-\($0)" }) }
        let first = try await Self.announce(harness)
        #expect(first["sent"]?.integerValue == Int64(refused.count))
        #expect(harness.gate.reached.sorted() == ["d0", "d1", "d2"])
        let restarted = Harness(versions: ["1.0", "1.1", "1.2"], state: state)
        let second = try await Self.announce(restarted)
        #expect(second["sent"] == 0 && second["already_announced"] == 3)
        #expect(restarted.gate.contents.withLock { $0.offeredKeys } == [], "nothing is offered again")
    }

    static let wrong: [(JSONObject, String)] = [
        (["version": "1.3.2"], "#/version"), (["version": "1.10"], "#/version"), (["version": "x"], "#/version"),
        (["version": "1.4.0", "languages": ["de"]], "#/languages/0"), (["version": "1.4.0", "teaser": 1], "#/teaser"),
        (["version": "1.4.0", "backends": ["iso"]], "#/backends/0"),
        (["version": "1.4.0", "dryRun": true], "#/dryRun"),
        (["version": "1.7", "teaser": true], "#/version"),
    ]

    @Test("An announcement that cannot be is refused with its field", arguments: wrong)
    func refusals(body: JSONObject, pointer: String) async throws {
        let harness = Harness(versions: ["1.0"])
        let problem = await harness.problem { () throws(ModuleProblem) in
            try await harness.post("shop/announcements", .object(body))
        }
        #expect(problem?.status == 422 && problem?.errors.map(\.pointer) == [pointer])
        #expect(harness.gate.accepted.isEmpty)
    }

    @Test("A version to come can be teased")
    func teaser() async throws {
        let harness = Harness(versions: ["1.4.0", "1.10"])
        let answer = try await harness.post("shop/announcements", ["version": "1.10", "teaser": true]).json
        #expect(answer["sent"] == 1 && harness.gate.reached == ["d0"])
    }
}
