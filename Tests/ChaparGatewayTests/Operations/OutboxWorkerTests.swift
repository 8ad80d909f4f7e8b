import Foundation
import HTTPTypes
import Logging
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Operations are carried out", .timeLimit(.minutes(2)))
struct OutboxWorkerTests {
    private static let down = PushError(.unavailable, "it is down", reason: "503")

    @Test("An operation reaches the platform with its id and time, and the device as it is now")
    func carriedOut() async throws {
        try await OperationRig.run { rig in
            let platform = ScriptedPlatform()
            var device = rig.device("a", user: "now")
            device.attributes = ["model": "iPhone"]
            device.appVersion = "3.1"
            _ = try await rig.store.put([device])
            let operation = rig.subscription("a", user: "then")
            try await rig.store.enqueue([operation])
            try await rig.run(["crm": platform], registers: false) { _, _ in try await rig.settled() }
            let call = try #require(platform.calls.first)
            #expect(platform.calls.count == 1)
            #expect(call.attempt?.id == operation.id && call.attempt?.number == 1)
            #expect(call.attempt?.at.millisecondsSince1970 == operation.at.millisecondsSince1970)
            #expect(call.device.user == "then", "the user from the operation")
            #expect(call.device.token?.value == "t-a", "the token from the registry")
            #expect(call.device.attributes == ["model": "iPhone", "app_version": "3.1"])
            let event = try #require(try await rig.events().last)
            #expect(event["type"] == "operation.done" && event["kind"] == "subscription" && event["backend"] == "crm")
            #expect(event["operation"]?.stringValue == operation.id.uuidString.lowercased())
            #expect(event["detail"] == ["answer": "taken"])
        }
    }

    @Test("An operation that fails for now is repeated with the same id until it succeeds")
    func retried() async throws {
        try await OperationRig.run { rig in
            let platform = ScriptedPlatform { _, earlier throws(PushError) in if earlier < 2 { throw Self.down } }
            _ = try await rig.store.put([rig.device("a")])
            try await rig.store.enqueue([rig.subscription("a")])
            try await rig.run(["crm": platform], registers: false) { _, _ in try await rig.settled() }
            #expect(platform.calls.map { $0.attempt?.number } == [1, 2, 3])
            #expect(Set(platform.calls.map { $0.attempt?.id }).count == 1)
            let events = try await rig.events()
            #expect(events.map { $0["type"] } == ["operation.retry", "operation.retry", "operation.done"])
            #expect(events[0]["reason"] == "503" && events[0]["next_attempt_at"] != nil)
        }
    }

    @Test("A waiting entry shows its reason: its own last refusal, or the pause of its backend")
    func whyItWaits() async throws {
        try await OperationRig.run { rig in
            let isUp = Mutex(false)
            let busy = PushError(.rateLimited, "One request a day.", reason: "quota", retryAfter: .seconds(3_600))
            let platform = ScriptedPlatform(
                policy: RetrySchedule(delays: [.seconds(60)], sweep: .seconds(60), maximumAttempts: 9, jitter: 0)
            ) {
                _,
                _ throws(PushError) in if !isUp.withLock({ $0 }) { throw busy }
            }
            _ = try await rig.store.put([rig.device("a"), rig.device("b")])
            try await rig.store.enqueue([rig.subscription("a")])
            try await rig.run(["crm": platform], registers: false) { state, _ in
                let responder = rig.api(state).responder
                func first(_ device: String) async throws -> JSONValue? {
                    let reply = try await APIHarness.send(responder, .get, "/v1/devices/\(device)/operations")
                    return reply.json["items"]?.arrayValue?.first
                }
                try await rig.until("the refusal") { try await first("a")?["attempts"] == 1 }
                #expect(try await first("a")?["reason"] == "quota")
                #expect(try await first("a")?["message"] == "One request a day.")
                try await rig.store.enqueue([rig.subscription("b")])
                #expect(try await first("b")?["attempts"] == 0, "the backend is paused")
                #expect(try await first("b")?["reason"] == "quota")
                let health = try await APIHarness.send(responder, .get, "/v1/backends").json["backends"]?.arrayValue?
                    .first?["health"]
                #expect(health?["status"] == "degraded")
                #expect(health?["detail"]?.stringValue?.contains("quota: One request a day.") == true)
                isUp.withLock { $0 = true }
                try await rig.until(by: .seconds(30)) { try await rig.store.outboxDepths().isEmpty }
                let after = try await APIHarness.send(responder, .get, "/v1/backends").json["backends"]?.arrayValue?
                    .first?["health"]
                #expect(after?["status"] == "ok")
            }
        }
    }

    @Test("A subscription that a log-out overtakes is asked for once more, as a former user's")
    func overtaken() async throws {
        try await OperationRig.run { rig in
            let platform = ScriptedPlatform { _, earlier throws(PushError) in
                guard earlier == 0 else { return }
                _ = try? await rig.store.patch("a") { $0.user = "sara" }
            }
            _ = try await rig.store.put([rig.device("a")])
            try await rig.store.enqueue([rig.subscription("a", user: "ali")])
            try await rig.run(["crm": platform], registers: false) { _, _ in try await rig.settled() }
            #expect(platform.calls.map(\.device.hasNewUser) == [false, true])
            #expect(platform.calls.map(\.device.user) == ["ali", "ali"])
            #expect(Set(platform.calls.compactMap { $0.attempt?.id }).count == 2, "it is another request")
        }
    }

    static let endings: [(PushError.Code, tries: Int)] = [
        (.invalidRequest, 1), (.unsupported, 1), (.credentialsRefused, 1), (.unavailable, 4), (.badAnswer, 4),
        (.rateLimited, 4),
    ]

    @Test("A refusal ends it at once, and trouble that lasts ends it after the last try", arguments: endings)
    func failed(code: PushError.Code, tries: Int) async throws {
        try await OperationRig.run { rig in
            let platform = ScriptedPlatform { _, _ throws(PushError) in throw PushError(code, "no") }
            _ = try await rig.store.put([rig.device("a")])
            try await rig.store.enqueue([rig.subscription("a")])
            try await rig.run(["crm": platform], registers: false) { _, _ in try await rig.settled() }
            #expect(platform.calls.count == tries)
            let last = try #require(try await rig.events().last)
            #expect(last["type"] == "operation.failed" && last["code"]?.stringValue == code.rawValue)
            #expect(last["attempt"]?.integerValue == Int64(tries))
        }
    }

    @Test("A device whose platform call hangs keeps no other device waiting, and is timed out")
    func hanging() async throws {
        try await OperationRig.run { rig in
            let platform = ScriptedPlatform { call, earlier throws(PushError) in
                guard call.device.id == "slow", earlier == 0 else { return }
                try? await ManualTime().sleep(for: .seconds(3_600))
            }
            _ = try await rig.store.put([rig.device("slow"), rig.device("quick")])
            try await rig.store.enqueue([rig.subscription("slow"), rig.subscription("slow"), rig.subscription("quick")])
            try await rig.run(["crm": platform], registers: false) { _, _ in
                try await rig.until("the quick one") {
                    platform.words.contains("subscription quick") && platform.calls.contains { $0.device.id == "slow" }
                }
                #expect(platform.calls.count { $0.device.id == "slow" } == 1, "the second one waits for the first")
                try await rig.until(by: .milliseconds(250)) { try await rig.store.outboxDepths().isEmpty }
            }
            let types = try await rig.events().map { $0["type"]?.stringValue }
            #expect(types == ["operation.done", "operation.retry", "operation.done", "operation.done"])
        }
    }

    @Test("A shut-down lets go of what it cannot end, and the next start does it")
    func shutDown() async throws {
        try await OperationRig.run { rig in
            let isHanging = Mutex(true)
            let platform = ScriptedPlatform { _, _ throws(PushError) in
                if isHanging.withLock({ $0 }) { try? await ManualTime().sleep(for: .seconds(3_600)) }
            }
            _ = try await rig.store.put([rig.device("a")])
            try await rig.store.enqueue([rig.subscription("a")])
            try await rig.run(["crm": platform], registers: false) { _, _ in
                try await rig.until("the call") { !platform.calls.isEmpty }
            }
            let waiting = try await rig.store.entries(ofDevice: "a", limit: 5)
            #expect(waiting.map(\.attempts) == [0], "it was not tried")
            isHanging.withLock { $0 = false }
            try await rig.run(["crm": platform], registers: false) { _, _ in try await rig.settled() }
            #expect(platform.calls.map { $0.attempt?.number } == [1, 1])
        }
    }

    @Test("A quota that is used up pauses the whole backend, and no other")
    func quota() async throws {
        try await OperationRig.run { rig in
            let limited = ScriptedPlatform { _, earlier throws(PushError) in
                if earlier == 0 { throw PushError(.rateLimited, "slow down", retryAfter: .seconds(3_000)) }
            }
            let other = ScriptedPlatform()
            _ = try await rig.store.put([rig.device("a"), rig.device("b")])
            try await rig.run(["crm": limited, "other": other], registers: false) { _, _ in
                try await rig.store.enqueue([rig.subscription("a")])
                try await rig.until("the refusal") { try await !rig.events().isEmpty }
                try await rig.store.enqueue([rig.subscription("b"), rig.subscription("b", backend: "other")])
                try await rig.until("the other backend") { other.calls.count == 1 }
                #expect(limited.words == ["subscription a"])
                try await rig.until(by: .seconds(20)) { try await rig.store.outboxDepths().isEmpty }
            }
            #expect(Set(limited.words) == ["subscription a", "subscription b"])
        }
    }

    @Test("Retry now makes waiting entries due, and ends a pause that no platform asked for", arguments: [false, true])
    func retryNow(isAsked: Bool) async throws {
        try await OperationRig.run { rig in
            let platform = ScriptedPlatform { _, earlier throws(PushError) in
                guard earlier < 3 else { return }
                throw PushError(.rateLimited, "slow down", retryAfter: isAsked ? .seconds(3_000) : nil)
            }
            _ = try await rig.store.put([rig.device("a")])
            try await rig.run(["crm": platform], registers: false) { _, desk in
                try await rig.store.enqueue([rig.subscription("a")])
                // Refused three times, it would wait longer than a step of the test's clock.
                if !isAsked { try await rig.until("the third refusal") { platform.calls.count == 3 } }
                try await rig.until("its record") { try await rig.events().count == (isAsked ? 1 : 3) }
                let due = try await rig.store.makeRetriesDue(ofEntriesAt: "crm")
                #expect(due == (isAsked ? 0 : 1))
                let pauses = desk.endOwnPause(of: "crm", at: WallClock(rig.time).reading)
                #expect(pauses.ended.map(\.kind) == (isAsked ? [] : [.operations]))
                #expect(pauses.kept.map(\.kind) == (isAsked ? [.operations] : []))
                let now = rig.time.now
                if isAsked {
                    try await rig.until(by: .seconds(20), "the end of the pause") { platform.calls.count > 1 }
                    #expect(rig.time.now.timeIntervalSince(now) > 2_900)
                } else {
                    try await rig.settled()
                    #expect(rig.time.now.timeIntervalSince(now) < 2)
                }
            }
        }
    }

    @Test("A reload keeps a pause that the platform asked for, and ends one that it did not", arguments: [false, true])
    func reloadedDuringPause(isAsked: Bool) async throws {
        try await OperationRig.run { rig in
            let platform = ScriptedPlatform { call, earlier throws(PushError) in
                guard call.device.id == "a", earlier < 3 else { return }
                throw PushError(.rateLimited, "slow down", retryAfter: isAsked ? .seconds(3_000) : nil)
            }
            _ = try await rig.store.put([rig.device("a"), rig.device("b")])
            try await rig.run(["crm": platform], registers: false) { state, desk in
                try await rig.store.enqueue([rig.subscription("a")])
                if !isAsked { try await rig.until("the third refusal") { platform.calls.count == 3 } }
                try await rig.until("its record") { try await rig.events().count == (isAsked ? 1 : 3) }
                let now = rig.time.now
                state.replace(rig.snapshot(["crm": platform], registers: false))
                desk.install()
                // Nothing but the pause of the backend holds up this one. Without a pause it needs no time.
                try await rig.store.enqueue([rig.subscription("b")])
                let health = Mutex<Set<BackendHealth.Status>>([])
                try await rig.until(by: isAsked ? .seconds(20) : .zero, "the entry of the other device") {
                    let status = state.outcomes.troubles.health(of: "crm", BackendHealth()).status
                    if platform.words.contains("subscription b") { return true }
                    _ = health.withLock { $0.insert(status) }
                    return false
                }
                guard isAsked else { return }
                #expect(rig.time.now.timeIntervalSince(now) > 2_900)
                #expect(health.withLock { $0 } == [.degraded], "what an operator sees meanwhile")
            }
        }
    }

    @Test("Retry now at another gateway on the store ends the pause here as well")
    func retryNowElsewhere() async throws {
        let (here, elsewhere) = Pair.make()
        try await OperationRig.run { rig in
            let platform = ScriptedPlatform { _, earlier throws(PushError) in
                if earlier < 3 { throw PushError(.rateLimited, "slow down") }
            }
            _ = try await rig.store.put([rig.device("a")])
            try await rig.run(["crm": platform], registers: false, nodes: here) { _, _ in
                try await rig.store.enqueue([rig.subscription("a")])
                try await rig.until("the third refusal") { platform.calls.count == 3 }
                try await rig.until("its record") { try await rig.events().count == 3 }
                #expect(try await rig.store.makeRetriesDue(ofEntriesAt: "crm") == 1)
                elsewhere.tell(NodeNews.retried(backend: "other").note)
                elsewhere.tell(NodeNews.retried(backend: "crm").note)
                let now = rig.time.now
                try await rig.settled()
                #expect(rig.time.now.timeIntervalSince(now) < 2)
            }
        }
    }

    @Test("A wall clock that is set back lengthens no pause")
    func clockSetBack() async throws {
        try await OperationRig.run { rig in
            let platform = ScriptedPlatform { call, _ throws(PushError) in
                if call.device.id == "a" { throw PushError(.credentialsRefused, "no") }
            }
            _ = try await rig.store.put([rig.device("a"), rig.device("b")])
            try await rig.run(["crm": platform], registers: false) { _, _ in
                try await rig.store.enqueue([rig.subscription("a")])
                try await rig.until("the refusal") { try await !rig.events().isEmpty }
                rig.time.set(rig.time.now.addingTimeInterval(-3_600))
                try await rig.store.enqueue([rig.subscription("b")])
                try await rig.until("the end of the pause") { platform.calls.count == 2 }
            }
            #expect(platform.words == ["subscription a", "subscription b"])
        }
    }

    @Test("A reload goes on with the new backend; what waits for one that left waits until it is back")
    func reloaded() async throws {
        try await OperationRig.run { rig in
            let first = ScriptedPlatform()
            let second = ScriptedPlatform()
            _ = try await rig.store.put([rig.device("a")])
            try await rig.run(["crm": first], registers: false) { state, desk in
                try await rig.store.enqueue([rig.subscription("a")])
                try await rig.settled()
                state.replace(rig.snapshot(["other": second]))
                desk.install()
                try await rig.until("the introduction") { second.words == ["register a"] }
                try await rig.settled()
                try await rig.store.enqueue([rig.subscription("a")])
                #expect(try await rig.store.outboxDepths()["crm"]?.waiting == 1)
                state.replace(rig.snapshot(["crm": second], registers: false))
                desk.install()
                try await rig.settled()
            }
            #expect(first.words == ["subscription a"])
            #expect(second.words == ["register a", "subscription a"])
        }
    }

    @Test("Backends' notices are events of the stream, and those beyond the limit are dropped")
    func notices() async throws {
        try await OperationRig.run { rig in
            let board = EventSink(time: rig.time)
            let announce = board.announcer(for: "crm")
            announce(BackendNotice(.error, "subscribe", device: "a", message: "no", detail: ["code": 480]))
            for number in 0..<EventSink.capacity { announce(BackendNotice(.info, "n\(number)", message: "m")) }
            board.finish()
            await board.run(rig.store, rig.metrics, .init(label: "test"))
            let events = try await rig.events()
            #expect(events.count == EventSink.capacity)
            #expect(events[0]["type"] == "backend.notice" && events[0]["level"] == "error")
            #expect(events[0]["device"] == "a" && events[0]["detail"] == ["code": 480])
            var text = PrometheusText()
            rig.metrics.registry.write(to: &text)
            #expect(String(decoding: text.bytes, as: UTF8.self).contains("chapar_notices_dropped_total 1"))
        }
    }
}
