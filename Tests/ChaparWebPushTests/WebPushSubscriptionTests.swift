import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparWebPush

@Suite("Subscriptions as tokens", .timeLimit(.minutes(1)))
struct WebPushSubscriptionTests {
    static let point = WebPushEncryptionTests.Vector.point
    static let auth = WebPushEncryptionTests.Vector.auth

    static func text(
        _ endpoint: String = "https://fcm.googleapis.com/fcm/send/abc",
        point: String = point,
        auth: String = auth,
        more: String = ""
    ) -> String {
        #"{"endpoint":"\#(endpoint)"\#(more),"keys":{"p256dh":"\#(point)","auth":"\#(auth)"}}"#
    }

    static func backend(_ hosts: [String] = ["browsers"]) throws -> WebPushBackend {
        var options = WebPushOptions(keys: [WebPushKey()], subject: "mailto:ops@example.com")
        try options.allow(hosts: hosts)
        let context = BackendContext(
            name: "browsers",
            http: ScriptedTransport { _ in .success(HTTPAnswer(status: 201)) },
            logger: quiet
        )
        return WebPushBackend(options: options, context: context)
    }

    static let forms: [String] = [
        text(more: #","expirationTime":null"#),
        #" { "keys" : {"auth":"\#(auth)==", "p256dh":"\#(point)="}, "#
            + #""endpoint": "HTTPS://FCM.googleapis.com:443/fcm/send/abc" } "#,
        text(
            point: point.replacing("-", with: "+").replacing("_", with: "/"),
            auth: auth.replacing("-", with: "+").replacing("_", with: "/")
        ),
        text(more: #","expirationTime":99999999999999"#),
    ]

    @Test("Every form of a subscription becomes one text", arguments: forms)
    func canonical(form: String) throws {
        let token = try Self.backend().checked(DeviceToken(form, service: .webPush))
        #expect(token.value == Self.text())
        #expect(try Self.backend().checked(token) == token)
    }

    static let mistakes: [(String, String)] = [
        ("", "no JSON"), ("[]", "no JSON object"), ("{}", "endpoint is missing"),
        (#"{"endpoint":7}"#, "endpoint is missing"),
        (text(point: String(point.dropLast())), "keys.p256dh has 64 octets"),
        (text(point: String(point.dropLast()) + "0"), "no point of the curve"),
        (text(point: "A" + String(point.dropFirst())), "no point of the curve"),
        (text(point: "***"), "keys.p256dh is not base64url"),
        (text(auth: String(auth.dropLast(2))), "keys.auth has 15 octets"),
        (text(auth: ""), "keys.auth has 0 octets"),
        (text(more: #","expirationTime":1"#), "has ended the subscription"),
        (text(more: #","expirationTime":"soon""#), "expirationTime"),
        (text(more: #","topic":"x""#), "\"topic\" is unknown"),
        (#"{"endpoint":"https://fcm.googleapis.com/1"}"#, "keys is missing"),
        (text("http://fcm.googleapis.com/fcm/send/abc"), "does not begin with https://"),
        (text("https://fcm.googleapis.com:8443/fcm/send/abc"), "has the port 8443"),
        (text("https://user@fcm.googleapis.com/fcm/send/abc"), "has a user"),
        (text("https://127.0.0.1/x"), "address in the place"), (text("https://[::1]/x"), "address in the place"),
        (text("https://2130706433/x"), "address in the place"), (text("https://0x7f.0x1/x"), "address in the place"),
        (text("https://127.1/x"), "address in the place"), (text("https://fcm.googleapis.com#x"), "is no address"),
        (text("https:///x"), "is no address"), (text("https://push.example.org/x"), "allow_hosts"),
        (text("https://fcm.googleapis.com.evil.test/x"), "allow_hosts"),
        (text("https://evilpush.apple.com/x"), "allow_hosts"),
        (text("https://push.apple.com/x"), "allow_hosts"), (text("https://localhost/x"), "private network"),
        (text("https://metadata.google.internal/x"), "private network"),
        (text("https://fcm.googleapis.com./x"), "allow_hosts"),
        (text("https://fcm.googleapis.com/" + String(repeating: "a", count: 2_048)), "more than 2048"),
    ]

    @Test("A mistake is told with its member, and without the endpoint", arguments: mistakes)
    func refused(form: String, words: String) throws {
        let error = #expect(throws: InvalidToken.self) {
            try Self.backend().checked(DeviceToken(form, service: .webPush))
        }
        #expect(error?.problem.contains(words) ?? false, "\(error?.problem ?? "")")
        #expect(error?.problem.contains("send/abc") == false)
    }

    static let hosts: [(String, String, Bool)] = [
        ("browsers", "https://web.push.apple.com/QF8w", true), ("browsers", "https://api.push.apple.com/QF8w", true),
        ("browsers", "https://wns2-par02p.notify.windows.com/w/?token=BQ", true),
        ("browsers", "https://updates.push.services.mozilla.com/wpush/v2/gA", true),
        ("any", "https://push.example.org/x", true), ("any", "https://192.168.1.1/x", false),
        ("any", "https://printer.local/x", false), ("any", "https://push.example.org:8443/x", false),
        ("push.example.org", "https://push.example.org/x", true),
        ("push.example.org", "https://a.push.example.org/x", false),
        ("push.example.org:8443", "https://push.example.org:8443/x", true),
        ("push.example.org:8443", "https://push.example.org/x", false), ("10.0.0.7", "https://10.0.0.7/x", true),
        ("*.example.org", "https://push.example.org/x", true), ("*.example.org", "https://example.org/x", false),
        ("*.example.org", "https://push.example.org.evil.test/x", false),
    ]

    @Test("The list of hosts decides", arguments: hosts)
    func allowed(entry: String, endpoint: String, isTaken: Bool) throws {
        let backend = try Self.backend([entry])
        let token = try? backend.checked(DeviceToken(Self.text(endpoint), service: .webPush))
        #expect((token != nil) == isTaken)
    }

    @Test("A text that is no subscription gets nothing, and no connection is opened")
    func malformed() async throws {
        let outcome = await (try Self.backend()).send(.sample, to: browser("{}"))
        #expect(outcome.refusal?.reason == "malformed_token")
        #expect(outcome.refusal?.invalidation?.isCertain == false)
        let ended = browser(Self.text(more: #","expirationTime":1"#))
        #expect(await (try Self.backend()).send(.sample, to: ended).refusal?.reason == "subscription_ended")
    }
}
