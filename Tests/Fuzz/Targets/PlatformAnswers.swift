import Crypto
import Foundation
import ChaparAPNs
import ChaparAltcraft
import ChaparChabok
import ChaparCore
import ChaparFCM
import ChaparHMS
import ChaparIDPush
import ChaparOneSignal
import ChaparRuStore
import ChaparService
import ChaparTesting
import ChaparWebPush
import Synchronization

/// What platforms answer: every message gets one outcome that can be stored, shown and counted, and every other call
/// ends.
///
/// An input is a list of answers, given in turn; when they have run out, connections are lost. An answer is written as
///
///     429
///     retry-after: 5
///
///     {"reason":"TooManyRequests"}
///
/// with `----` on a line of its own between two, and a word for a failure (`lost`, `refused`, `deadline`) as the first
/// line.
enum PlatformAnswers {
    /// One for each platform.
    static let targets = [
        target("apns", .apns, to: [token(.iOSAPNs, "5e"), token(.iOSAPNs, "6f")], appleKeys, ["k.p8": appleKey]),
        FuzzTarget("fcm") { bytes in
            try await run(bytes, to: [token(.androidFirebase, "f"), .topic("news")]) { context in
                try FCMBackend(
                    options: FCMOptions(
                        credential: .accessToken { AccessToken(Secret("ya29.fuzz"), lifetime: .seconds(3599)) },
                        projectID: "courier"
                    ),
                    context: context
                )
            }
        },
        target(
            "hms",
            .hms,
            to: [token(.androidHuawei, "IQAAAA1"), token(.androidHuawei, "IQAAAA2")],
            ["app_id": "1001", "client_secret": "s"]
        ),
        target(
            "rustore",
            .ruStore,
            to: [token(.androidRuStore, "r1"), token(.androidRuStore, "r2")],
            ["project_id": "p", "service_token": "t"]
        ),
        target(
            "rustore-universal",
            .ruStore,
            to: [token(.androidRuStoreUniversal, "r1"), .topic("news")],
            ["project_id": "p", "service_token": "t", "mode": "universal"]
        ),
        target(
            "onesignal",
            .oneSignal,
            to: [.platformID(player), .platformID(otherPlayer)],
            ["app_id": .string(player), "api_key": "k"]
        ),
        target(
            "idpush",
            .idPush(sender: .oneSignal),
            to: [.platformID(player)],
            ["project_id": "p", "onesignal": ["app_id": .string(player), "api_key": "k"]]
        ),
        target(
            "chabok",
            .chabok,
            to: [.user("ada"), .user("bob")],
            ["app_id": "shop", "access_token": "t", "environment": "sandbox"]
        ),
        target(
            "altcraft",
            .altcraft,
            to: [.platformID("7"), .user("ada")],
            [
                "api_url": "https://pxl.example.com", "auth": ["kind": "rtoken", "rtoken": "r"],
                "campaign": ["url": "https://acme.example.com", "api_token": "t", "trigger_id": 13],
            ]
        ),
        target(
            "service",
            .service,
            to: [.user("ada"), .user("bob")],
            ["url": "https://push.example.com", "secret": "0123456789abcdef01234567", "recipients": ["user"]]
        ),
        target(
            "webpush",
            .webPush,
            to: [subscription("fcm.googleapis.com/fcm/send/1"), subscription("web.push.apple.com/1")],
            [
                "vapid_key": "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw", "subject": "mailto:ops@example.com",
                "previous_vapid_keys": [["key": "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"]],
            ]
        ),
    ]

    /// A subscription with the keys of RFC 8291's example.
    private static func subscription(_ address: String) -> Recipient {
        let point = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
        let text =
            #"{"endpoint":"https://\#(address)","keys":{"p256dh":"\#(point)","auth":"BTBZMqHH6r4Tts7J_aSIgg"}}"#
        return .token(DeviceToken(text, service: .webPush))
    }

    private static let player = "0c2ddf5e-5d4c-4f19-93b5-b9c6a2f1f9d1"
    private static let otherPlayer = "1c2ddf5e-5d4c-4f19-93b5-b9c6a2f1f9d2"
    private static let appleKey = P256.Signing.PrivateKey().pemRepresentation
    private static let appleKeys: JSONObject = [
        "team_id": "TEAM1D2345", "key_id": "K3YID12345", "key_file": "k.p8", "topic": "com.example.courier",
    ]

    private static func token(_ service: TokenService, _ text: String) -> Recipient {
        .token(DeviceToken(text.padding(toLength: 64, withPad: "0", startingAt: 0), service: service))
    }

    private static func target(
        _ name: String,
        _ factory: BackendFactory,
        to recipients: [Recipient],
        _ keys: JSONObject,
        _ files: [String: String] = [:]
    ) -> FuzzTarget {
        FuzzTarget(name) { bytes in
            try await run(bytes, to: recipients) { context in
                let sample = SampleSection(keys, files: files)
                guard let backend = sample.make(factory, context) else { throw Violation("\(sample.issues)") }
                return backend
            }
        }
    }

    /// Sends a message and does whatever else the platform can, with the answers of an input.
    private static func run(
        _ bytes: [UInt8],
        to recipients: [Recipient],
        _ make: (BackendContext) throws -> any PushBackend
    ) async throws {
        let answers = Mutex(read(bytes)[...])
        let transport = ScriptedTransport { _ in
            answers.withLock { $0.popFirst() } ?? .failure(HTTPFailure(.unknown, .connectionLost, "no more answers"))
        }
        let backend = try make(
            BackendContext(name: "fuzz", http: transport, time: InstantTime(), state: MemoryState(), logger: .silent)
        )
        let notification = PushNotification(title: "Parcel", body: "Out for delivery")
        let outcomes = await backend.send(notification, to: recipients)
        try require(outcomes.count == recipients.count, "every recipient has an outcome")
        for outcome in outcomes { try check(outcome) }
        await tryAbilities(of: backend)
        await backend.shutdown(grace: .zero)
    }

    /// Checks that an outcome can be stored, shown and counted.
    private static func check(_ outcome: DeliveryOutcome) throws {
        switch outcome {
        case .accepted(let acceptance):
            try require(acceptance.platformID != "", "an id of the platform's is not empty")
            try require(acceptance.platformID?.utf8.count ?? 0 <= 4_096, "an id of the platform's has a limit")
        case .refused(let refusal):
            try check(reason: refusal.reason, detail: refusal.detail)
            switch refusal.advice {
            case .retry(let after), .slowRecipient(let after), .slowBackend(let after):
                let isPause = after.map { $0 >= .zero && $0 <= .seconds(366 * 86_400) } ?? true
                try require(isPause, "a pause is one: \(refusal)")
            case .never, .parkBackend: break
            }
        case .unknown(let unknown): try check(reason: unknown.reason, detail: unknown.detail)
        }
    }

    private static func check(reason: String, detail: String?) throws {
        let isWord = (1...64).contains(reason.utf8.count) && reason.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
        try require(isWord, "a reason is a word: \(reason)")
        try require(detail?.utf8.count ?? 0 <= 4_096, "a sentence has a limit")
    }

    /// What these calls throw is their callers' business; that they end is what is tried.
    private static func tryAbilities(of backend: any PushBackend) async {
        let service = backend.audience.services.first ?? .iOSAPNs
        let device = DeviceRecord(
            id: "d-1",
            user: "ada",
            tokens: [DeviceToken(String(repeating: "5e", count: 32), service: service)],
            tags: ["gold"],
            attributes: ["app_version": "3.3.1", "time_zone": "Asia/Tehran"]
        )
        _ = try? await backend.devices?.register(device)
        if let subscriptions = backend.subscriptions {
            try? await subscriptions.setStatus(.subscribed, of: device)
            _ = try? await subscriptions.status(of: device)
        }
        try? await backend.tags?.setTags(["plan": "gold"], of: device)
        try? await backend.events?.report(.opened, platformID: player, device: device)
        _ = try? await backend.tracking?.state(of: player)
        _ = try? await backend.cancellation?.cancel(platformID: player)
        try? await backend.devices?.remove(device)
        _ = await backend.diagnose()
    }

    // MARK: The form of inputs

    private static func read(_ bytes: [UInt8]) -> [Result<HTTPAnswer, HTTPFailure>] {
        var answers: [Result<HTTPAnswer, HTTPFailure>] = []
        var rest = bytes[...]
        while !rest.isEmpty, answers.count < 16 {
            let end = rest.firstRange(of: Array("\n----\n".utf8))
            answers.append(answer(rest[..<(end?.lowerBound ?? rest.endIndex)]))
            rest = rest[(end?.upperBound ?? rest.endIndex)...]
        }
        return answers
    }

    private static func answer(_ bytes: ArraySlice<UInt8>) -> Result<HTTPAnswer, HTTPFailure> {
        var rest = bytes
        func line() -> String {
            let end = rest.firstIndex(of: 10)
            defer { rest = rest[(end.map { $0 + 1 } ?? rest.endIndex)...] }
            return String(decoding: rest[..<(end ?? rest.endIndex)], as: UTF8.self)
        }
        let first = line()
        switch first {
        case "lost": return .failure(HTTPFailure(.unknown, .connectionLost, "lost"))
        case "refused": return .failure(HTTPFailure(.notProcessed, .connect, "refused"))
        case "deadline": return .failure(HTTPFailure(.unknown, .deadline, "deadline"))
        default: break
        }
        var headers: [HTTPHeader] = []
        while !rest.isEmpty {
            let field = line()
            guard let colon = field.firstIndex(of: ":") else { break }
            // As the HTTP/1.1 and HTTP/2 clients pass them on: names in lower case, no control characters.
            let (name, value) = (field[..<colon].lowercased(), field[field.index(after: colon)...])
            headers.append(HTTPHeader(name, value.drop { $0 == " " }.filter { $0.asciiValue.map { $0 >= 32 } ?? true }))
        }
        // Statuses that are none reach no plugin.
        let status = Int(first).flatMap { (200...999).contains($0) ? $0 : nil } ?? 200
        return .success(HTTPAnswer(status: status, headers: headers, body: Array(rest)))
    }
}
