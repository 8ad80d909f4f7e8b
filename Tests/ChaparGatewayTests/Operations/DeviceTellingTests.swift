import Foundation
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

@Suite("Platforms hear of devices", .timeLimit(.minutes(3)))
struct DeviceTellingTests {
    /// Runs changes against a platform, and gives back what it was told.
    private func told(
        registers: Bool = true,
        _ change: (OperationRig, GatewayState) async throws -> Void
    ) async throws -> ScriptedPlatform {
        let platform = ScriptedPlatform()
        try await OperationRig.run { rig in
            try await rig.run(["crm": platform], registers: registers) { state, _ in
                if registers { try await rig.introduced() }
                try await change(rig, state)
                try await rig.settled()
            }
        }
        return platform
    }

    @Test("A device that comes, changes, gets tags and goes")
    func life() async throws {
        let platform = try await told { rig, state in
            _ = try await state.devices.put([rig.device("a", tags: ["plan:pro", "vip"])], outbox: state.outbox)
            try await rig.settled()
            _ = try await state.devices.patch("a", outbox: state.outbox) { $0.lastSeen = $0.createdAt }
            _ = try await state.devices.patch("a", outbox: state.outbox) { $0.locale = "fa" }
            try await rig.settled()
            _ = try await state.devices.patch("a", outbox: state.outbox) { $0.tags = ["plan:free"] }
            try await rig.settled()
            _ = try await state.devices.delete("a", outbox: state.outbox)
        }
        #expect(platform.words == ["register a", "tags a", "register a", "tags a", "remove a"])
        #expect(platform.calls[1].detail == ["plan": "pro", "vip": "1"])
        #expect(platform.calls[2].device.language == "fa")
        #expect(platform.calls[3].detail == ["plan": "free", "vip": nil])
        #expect(platform.calls[4].device.token?.value == "t-a", "what is needed of a device that is gone")
        #expect(platform.calls[4].device.user == "ali")
    }

    @Test("A dead token moves the device to its next one, and the last dead one takes it away")
    func buried() async throws {
        let platform = try await told { rig, state in
            var device = rig.device("a")
            let other = DeviceToken("second", service: .iOSFirebase)
            device.setToken(RegisteredToken(other, registeredAt: rig.time.now))
            _ = try await state.devices.put([device], outbox: state.outbox)
            try await rig.settled()
            for token in [DeviceToken("t-a", service: .iOSAPNs), other] {
                rig.time.advance(by: .seconds(1))
                let now = rig.time.now
                let refusal = TokenRefusal(token, asOf: now, at: now, backend: "ios", reason: "Unregistered")
                _ = try await state.devices.invalidate([refusal], outbox: state.outbox)
                try await rig.settled()
            }
        }
        #expect(platform.words == ["register a", "register a", "remove a"])
        #expect(platform.calls.map { $0.device.token?.value } == ["t-a", "second", "second"])
    }

    @Test(
        "A device that registers again unchanged is told of where it is awaited, and nowhere else",
        arguments: [true, false]
    )
    func registersAgain(isAwaited: Bool) async throws {
        let platform = ScriptedPlatform()
        try await OperationRig.run { rig in
            try await rig.run(["crm": platform]) { state, _ in
                try await rig.introduced()
                _ = try await state.devices.put([rig.device("a")], outbox: state.outbox)
                try await rig.settled()
                if isAwaited { platform.awaited.withLock { $0 = ["a"] } }
                _ = try await state.devices.patch("a", outbox: state.outbox) { $0.lastSeen = $0.createdAt }
                try await rig.settled()
                #expect(platform.words == ["register a"], "its app did not register it")
                rig.time.advance(by: .seconds(60))
                _ = try await state.devices.put([rig.device("a")], outbox: state.outbox)
                try await rig.settled()
            }
        }
        #expect(platform.words == (isAwaited ? ["register a", "register a"] : ["register a"]))
    }

    @Test("register_devices: false registers nothing at platforms")
    func silent() async throws {
        let platform = try await told(registers: false) { rig, state in
            _ = try await state.devices.put([rig.device("a", tags: ["x"])], outbox: state.outbox)
            _ = try await state.devices.delete("a", outbox: state.outbox)
        }
        #expect(platform.calls.isEmpty)
    }

    @Test("Tags that a platform does not want are not told")
    func unwantedTags() async throws {
        let platform = try await told { rig, state in
            _ = try await state.devices.put([rig.device("a", tags: ["bad:1"])], outbox: state.outbox)
        }
        #expect(platform.words == ["register a"])
    }

    @Test("A new backend hears of every device once, one with another stamp or that comes back hears again")
    func introduced() async throws {
        try await OperationRig.run { rig in
            let devices = (0..<450).map { rig.device("d\($0)") }
            _ = try await rig.store.put(devices)
            let platform = ScriptedPlatform()
            /// Runs a platform until it has heard of so many devices and nothing is left to be told.
            func run(_ platform: ScriptedPlatform, _ count: Int) async throws {
                try await rig.run(["crm": platform]) { _, _ in
                    try await rig.until("\(count) registrations") {
                        guard try await rig.store.unplannedCount(ofDevice: nil) == 0 else { return false }
                        let waiting = try await rig.store.outboxDepths()
                        return platform.calls.count >= count && waiting.isEmpty
                    }
                }
            }
            try await run(platform, 450)
            #expect(Set(platform.calls.map(\.device.id)).count == 450)
            try await run(platform, 450)
            #expect(platform.calls.count == 450, "a restart repeats nothing")
            let changed = ScriptedPlatform(stamp: "2")
            try await run(changed, 450)
            #expect(changed.calls.count == 450)
            try await rig.run(["other": ScriptedPlatform()]) { _, _ in
                try await rig.until { try await rig.store.loadState("operations.introduced")?.contains(0x6F) ?? false }
                try await rig.settled()
            }
            let back = ScriptedPlatform(stamp: "2")
            try await run(back, 450)
            #expect(back.calls.count == 450)
        }
    }

    @Test("Registrations that were lost to refused credentials are made again after the next start")
    func mended() async throws {
        try await OperationRig.run { rig in
            _ = try await rig.store.put([rig.device("a")])
            let refusing = ScriptedPlatform { _, _ throws(PushError) in throw PushError(.credentialsRefused, "no") }
            try await rig.run(["crm": refusing]) { state, _ in
                try await rig.introduced()
                try await rig.settled()
                _ = try await state.devices.put([rig.device("b")], outbox: state.outbox)
                try await rig.settled()
            }
            #expect(refusing.words == ["register a", "register b"])
            let mended = ScriptedPlatform()
            try await rig.run(["crm": mended]) { _, _ in try await rig.until { mended.calls.count == 2 } }
        }
    }

    @Test("Changes lost during a backend's backfill are repeated at the next start, once")
    func doubtedMeanwhile() async throws {
        try await OperationRig.run { rig in
            _ = try await rig.store.put([rig.device("a")])
            // So much waits for the backend that its introduction does too.
            try await rig.store.enqueue((0..<2_000).map { rig.subscription("x\($0)") })
            let snapshot = rig.snapshot(["crm": ScriptedPlatform()])
            let planner = rig.planner(snapshot)
            /// Introduces as a start of the gateway does; returns the number of entries that this made.
            func start(_ body: (Backfill) async throws -> Void = { _ in }) async throws -> Int {
                let own = Backfill(store: rig.store, state: rig.store, time: rig.time, logger: quiet)
                async let introducing: Void = own.run(for: "crm", stamp: "1", snapshot.deviceSync)
                try await body(own)
                await introducing
                while try await planner.planSome() > 0 {}
                return try await rig.store.cancelEntries(of: "crm", device: nil)
            }
            let first = try await start { own in
                try await rig.until { try await rig.store.loadState("operations.introduced") != nil }
                await own.markIncomplete("crm")
                _ = try await rig.store.cancelEntries(of: "crm", device: nil)
                try await rig.introduced()
            }
            #expect(first == 1)
            #expect(try await start() == 1, "what was told while the credentials were wrong is told again")
            #expect(try await start() == 0)
        }
    }

    static let tags: [(old: [String], new: [String], JSONObject)] = [
        ([], ["plan:pro", "vip"], ["plan": "pro", "vip": "1"]),
        (["plan:pro"], ["plan:free"], ["plan": "free"]),
        (["plan:pro", "vip"], ["vip"], ["plan": nil]),
        (["a:b:c"], ["a:b:c"], [:]),
        ([], ["a:b:c", "empty:"], ["a": "b:c", "empty": ""]),
    ]

    @Test("Tags become keys and values", arguments: tags)
    func tagChanges(old: [String], new: [String], expected: JSONObject) {
        #expect(DeviceSync.changes(from: old, to: new) == expected)
    }

    @Test("Another user gets the device's tags, which a platform may keep for the user")
    func tagsOfAnotherUser() throws {
        let rig = DeviceSync(
            [BackendRegistry.ConfiguredBackend(name: "crm", backend: ScriptedPlatform())],
            priority: TokenService.priority
        )
        func device(_ user: String?, _ tags: [String]) -> Device {
            let token = RegisteredToken(DeviceToken("t", service: .iOSAPNs), registeredAt: .distantPast)
            return Device(id: "a", user: user, tokens: [token], tags: tags, createdAt: .distantPast)
        }
        func told(_ old: Device?, _ new: Device) -> [JSONValue?] {
            rig.operations(for: OutboxChange(number: 1, at: .distantPast, content: .device(old: old, new: new)))
                .filter { $0.kind == .tags }.map { $0.body["tags"] }
        }
        #expect(told(device("ali", ["vip"]), device("ali", ["vip"])).isEmpty)
        #expect(told(device("ali", ["vip"]), device("sara", ["vip"])) == [["vip": "1"]])
        #expect(told(device(nil, ["vip"]), device("sara", ["vip"])) == [["vip": "1"]])
        #expect(told(device("ali", ["vip", "old"]), device("sara", ["vip"])) == [["old": nil, "vip": "1"]])
    }
}
