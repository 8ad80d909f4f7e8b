import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparHMS

/// Messages taken back from HarmonyOS 5 and later, over real sockets.
///
/// Source: Huawei, "Push Kit, REST API, message revocation", read 2026-11.
@Suite("Messages taken back from HarmonyOS 5", .timeLimit(.minutes(2)))
struct HMSRevocationTests {
    private static let alert = PushNotification(title: "Parcel", body: "Out for delivery", collapseID: "order-42")

    private static func token(_ number: Int) -> DeviceToken {
        DeviceToken(HMSSceneTests.harmony(number), service: .harmonyHuawei)
    }

    /// Runs a backend of v3 whose app has the client 77, three of whose devices the simulator knows.
    private static func run(
        clientID: String? = "77",
        _ body: (Harness) async throws -> Void
    ) async throws {
        var configuration = HMSSimulatorConfiguration()
        configuration.apps = [
            .init(clientID: "77"), .init(appID: "200300400", projectID: "5", clientSecret: "other"),
        ]
        try await Harness.run(
            configuration,
            change: { options, simulator in
                let account = try HMSServiceAccount(json: Array(simulator.serviceAccountFile.utf8))
                options.credential = .serviceAccount(account)
                options.api = .v3(projectID: simulator.app.projectID)
                options.appID = nil
                options.clientID = clientID
            }
        ) { harness in
            harness.simulator.setDevice(HMSDevice(isHarmony: true), tokens: (0..<3).map { token($0).value })
            harness.simulator.setDevice(HMSDevice(appID: "200300400", isHarmony: true), tokens: ["foreign"])
            try await body(harness)
        }
    }

    @Test("An alert is taken back by its notifyId, from the devices that are named and no others")
    func alert() async throws {
        try await Self.run { harness in
            let revocation = try #require(harness.backend.revocation)
            let recipients = (0..<3).map { Recipient.token(Self.token($0)) }
            let outcomes = await harness.backend.send(Self.alert, to: recipients)
            let id = try #require(outcomes[0].acceptance?.trackingID)
            #expect(id == "0/\(HMSScene.notifyID("order-42"))")
            #expect(outcomes[0].acceptance?.platformID != id, "receipts find the message by the platform's id")
            #expect(try await revocation.revoke(id, from: [Self.token(0), Self.token(2)]))
            #expect(harness.simulator.inbox().map(\.isRevoked) == [true, false, true])
            #expect(try await revocation.revoke(id, from: [Self.token(0)]), "a repeat does no harm")
            #expect(harness.simulator.counters.revocations == 2 && harness.simulator.counters.revoked == 2)
        }
    }

    @Test("A text to be spoken goes by its own push type; what has no notifyId has no id to be taken back by")
    func scenes() async throws {
        try await Self.run { harness in
            func trackingID(_ type: Int64, _ payload: JSONValue) async -> String? {
                let own: JSONObject = ["harmony": ["push_type": .integer(type), "payload": payload]]
                let notification = PushNotification(title: "T", overrides: ["hms": own])
                return await harness.backend.send(notification, to: .token(Self.token(0))).acceptance?.trackingID
            }
            let spoken: JSONValue = ["extraData": "x", "notification": ["title": "T", "notifyId": 9]]
            #expect(await trackingID(2, spoken) == "2/9")
            #expect(await trackingID(7, ["notification": ["notifyId": 9]]) == nil)
            #expect(await trackingID(2, ["notification": ["notifyId": -1]]) == nil)
            let silent = PushNotification(data: ["n": 1], isSilent: true)
            let outcome = await harness.backend.send(silent, to: .token(Self.token(0)))
            #expect(outcome.acceptance != nil && outcome.acceptance?.trackingID == nil)
            let isTaken = try await harness.backend.revocation?.revoke("2/9", from: [Self.token(0)])
            #expect(isTaken == true)
            #expect(harness.simulator.inbox().map(\.isRevoked) == [true, false, false, false])
        }
    }

    @Test("v1 and v2 take nothing back, nor does v3 without the id of its client")
    func without() async throws {
        try await Harness.run { harness in
            #expect(harness.backend.revocation == nil)
            #expect(await harness.sendOne().acceptance?.trackingID == nil)
        }
        try await Self.run(clientID: nil) { harness in
            #expect(harness.backend.revocation == nil)
            let outcome = await harness.backend.send(Self.alert, to: .token(Self.token(0)))
            #expect(outcome.acceptance != nil && outcome.acceptance?.trackingID == nil)
        }
    }

    @Test(
        "The conformance kit tries it",
        arguments: BackendConformance.checks.filter { $0.name.hasPrefix("takes a message back") }
    )
    func conformance(check: BackendConformance.Check) async throws {
        try await Self.run { harness in
            let simulator = harness.simulator
            var subject = BackendConformance.Subject(
                backend: harness.backend,
                recipient: { .token(Self.token($0)) },
                deadRecipient: .token(DeviceToken("dead", service: .harmonyHuawei)),
                foreignRecipient: android("x"),
                taken: { simulator.counters.accepted },
                requests: { simulator.counters.revocations },
                payloadLimit: 4096,
                disturb: { _ in }
            )
            subject.means.revocable = Self.token(0)
            try await check.run(subject)
        }
    }

    // MARK: Refusals

    /// The answers of the page, as errors of the call.
    static let codes: [(code: String, error: PushError.Code)] = [
        ("80000001", .unavailable), ("80100001", .invalidRequest), ("80100003", .invalidRequest),
        ("80100020", .invalidRequest), ("80200001", .credentialsRefused), ("80200003", .credentialsRefused),
        ("80200005", .credentialsRefused), ("80300002", .credentialsRefused), ("80300010", .invalidRequest),
        ("80300017", .invalidRequest), ("80300028", .credentialsRefused), ("80300032", .credentialsRefused),
        ("81000001", .unavailable),
    ]

    @Test("Each code of Huawei's page becomes an error", arguments: codes)
    func refused(code: String, error: PushError.Code) async throws {
        try await Self.run { harness in
            let answer = FaultAnswer(400, code)
            harness.simulator.add(FaultRule(match: FaultMatch(listener: HMSSimulator.push), .answer(answer)))
            let thrown = await #expect(throws: PushError.self) {
                try await harness.backend.revocation?.revoke("0/7", from: [Self.token(0)])
            }
            #expect(thrown?.code == error && thrown?.reason == code && thrown?.message.isEmpty == false)
        }
    }

    @Test("Dead tokens mean that nothing is left to take back; an expired credential is replaced")
    func dead() async throws {
        try await Self.run { harness in
            let revocation = try #require(harness.backend.revocation)
            let gone = DeviceToken("gone", service: .harmonyHuawei)
            #expect(try await !revocation.revoke("0/7", from: [gone]))
            #expect(try await revocation.revoke("0/7", from: [gone, Self.token(1)]))
            let answer = FaultAnswer(401, "80200005")
            harness.simulator.add(FaultRule(match: FaultMatch(listener: HMSSimulator.push, count: 1), .answer(answer)))
            #expect(try await revocation.revoke("0/7", from: [Self.token(1)]))
        }
    }

    @Test("A malformed id, another service's token and too many tokens are refused without a request")
    func faults() async throws {
        try await Self.run { harness in
            let revocation = try #require(harness.backend.revocation)
            #expect(revocation.services == [.harmonyHuawei] && revocation.revocationLimit == 1000)
            let calls: [(String, [DeviceToken])] = [
                ("7", [Self.token(0)]), ("6/7", [Self.token(0)]), ("0/x", [Self.token(0)]), ("0/-1", [Self.token(0)]),
                ("0/7/8", [Self.token(0)]), ("0/7", []), ("0/7", Array(repeating: Self.token(0), count: 1001)),
                ("0/7", [DeviceToken(androidToken(0), service: .androidHuawei)]),
            ]
            for (id, tokens) in calls {
                await #expect(throws: PushError.self) { try await revocation.revoke(id, from: tokens) }
            }
            #expect(harness.simulator.counters.revocations == 0)
        }
    }

    /// Requests, with the simulator's answers by Huawei's page.
    static let requests: [(name: String, path: String, pushType: Int?, body: JSONValue, code: String?)] = [
        ("right", "/v1/77/messages:revoke", 0, ["notifyId": 7, "token": ["MAMzLgIsample0"]], "80000000"),
        ("spoken", "/v1/77/messages:revoke", 2, ["notifyId": 7, "token": ["MAMzLgIsample0"]], "80000000"),
        ("no push type", "/v1/77/messages:revoke", nil, ["notifyId": 7, "token": ["MAMzLgIsample0"]], "80100003"),
        ("a live view", "/v1/77/messages:revoke", 7, ["notifyId": 7, "token": ["MAMzLgIsample0"]], "80100003"),
        ("no id", "/v1/77/messages:revoke", 0, ["token": ["MAMzLgIsample0"]], "80100001"),
        ("id as text", "/v1/77/messages:revoke", 0, ["notifyId": "7", "token": ["MAMzLgIsample0"]], "80100001"),
        ("no tokens", "/v1/77/messages:revoke", 0, ["notifyId": 7, "token": []], "80300010"),
        ("token as text", "/v1/77/messages:revoke", 0, ["notifyId": 7, "token": "MAMzLgIsample0"], "80100003"),
        ("an empty token", "/v1/77/messages:revoke", 0, ["notifyId": 7, "token": [""]], "80100001"),
        ("an unknown member", "/v1/77/messages:revoke", 0, ["notifyId": 7, "token": ["x"], "all": true], "80100003"),
        ("dead", "/v1/77/messages:revoke", 0, ["notifyId": 7, "token": ["x"]], "80300007"),
        ("of another app", "/v1/77/messages:revoke", 0, ["notifyId": 7, "token": ["foreign"]], "80300028"),
        (
            "of v1", "/v1/77/messages:revoke", 0, ["notifyId": 7, "token": ["IQAAAACy0sample0-AaBbCcDdEeFf"]],
            "80300007"
        ),
        ("another client", "/v1/78/messages:revoke", 0, ["notifyId": 7, "token": ["MAMzLgIsample0"]], "80300002"),
        ("the project", "/v3/77/messages:revoke", 0, ["notifyId": 7, "token": ["MAMzLgIsample0"]], nil),
    ]

    @Test("The simulator is as strict as the page", arguments: requests)
    func strict(name: String, path: String, pushType: Int?, body: JSONValue, code: String?) async throws {
        try await Self.run { harness in
            harness.register(0..<1)
            let answer = try await harness.backend.client.call(path, body, pushType: pushType).answer
            #expect(answer.code == code, "\(name)")
            if code == nil { #expect(answer.status == 404) }
        }
    }

    @Test("The simulator wants a service account's JWT: an access token of OAuth is refused")
    func oauth() async throws {
        try await Harness.run { harness in
            let body: JSONValue = ["notifyId": 7, "token": ["x"]]
            let path = "/v1/\(harness.simulator.app.appID)/messages:revoke"
            let (answer, _) = try await harness.backend.client.call(path, body, pushType: 0)
            #expect(answer.code == "80200001")
        }
    }
}
