import Foundation
import ChaparCore
import ChaparSimulator
import Testing

@testable import ChaparAPNsSimulator

// Source: specs, APNs, section 12.
@Suite("Channels and broadcasts", .timeLimit(.minutes(1)))
struct APNsChannelTests {
    /// The least that an update holds.
    static let update = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#

    /// A bench for management calls and broadcasts on one connection each.
    private struct Bench {
        static let key = APNsSigningKey(topics: .only(["com.example.app", "com.example.new"]))
        var state = APNsState(seed: 1, inboxLimit: 10)
        var rules = APNsRules(environment: .production)
        var management = APNsConnectionState()
        var sending = APNsConnectionState()
        let jwt: String

        init() throws {
            state.register(Self.key.registration)
            jwt = try Self.key.providerToken(issuedAt: RuleBench.now)
        }

        private func request(_ method: String, _ path: String, _ headers: [(String, String)], _ body: String)
            -> APNsRequest
        {
            var fields = headers.map { HTTPHeader($0.0, $0.1) }
            if sending.certificate == nil, !headers.contains(where: { $0.0 == "authorization" }) {
                fields.append(HTTPHeader("authorization", "bearer \(jwt)"))
            }
            return APNsRequest(method: method, path: path, headers: fields, body: Array(body.utf8))
        }

        /// Status and channel, or the reason of the refusal.
        mutating func manage(
            _ method: String,
            _ path: String = "/1/apps/com.example.app/channels",
            _ headers: [(String, String)] = [],
            _ body: String = ""
        ) -> (Int, String, String) {
            do throws(APNsRefusal) {
                let request = request(method, path, headers, body)
                let answer = try rules.manage(request, now: RuleBench.now, connection: &management, state: &state)
                return (answer.status, answer.channelID ?? "", String(decoding: answer.body, as: UTF8.self))
            } catch {
                return (error.status, "", error.reason)
            }
        }

        mutating func create(policy: Int = 1) -> String {
            post(body(policy: policy)).1
        }

        mutating func post(_ body: String) -> (Int, String, String) {
            manage("POST", "/1/apps/com.example.app/channels", [], body)
        }

        func body(policy: Int) -> String { #"{"message-storage-policy":\#(policy),"push-type":"LiveActivity"}"# }

        mutating func broadcast(
            _ channel: String?,
            _ more: [(String, String)] = [],
            body: String = APNsChannelTests.update
        )
            -> String?
        {
            var headers = [("apns-push-type", "liveactivity"), ("apns-priority", "5")]
            if let channel { headers.append(("apns-channel-id", channel)) }
            headers.removeAll { header in more.contains { $0.0 == header.0 } }
            let request = request(
                "POST",
                "/4/broadcasts/apps/com.example.app",
                headers + more.filter { !$0.1.isEmpty },
                body
            )
            do throws(APNsRefusal) {
                _ = try rules.checkBroadcast(request, now: RuleBench.now, connection: &sending, state: &state)
                return nil
            } catch {
                return error.reason
            }
        }
    }

    @Test("A channel is made, read, listed and deleted")
    func life() throws {
        var bench = try Bench()
        let made = bench.post(bench.body(policy: 1))
        #expect(made.0 == 201)
        #expect(made.2.isEmpty)
        #expect(Data(base64Encoded: made.1)?.isEmpty == false)
        let read = bench.manage("GET", "/1/apps/com.example.app/channels", [("apns-channel-id", made.1)])
        #expect(read.0 == 200)
        #expect(read.2 == #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#)
        let list = bench.manage("GET", "/1/apps/com.example.app/all-channels")
        #expect(list.2 == JSONValue.object(["channels": [.string(made.1)]]).text)
        let other = bench.manage("GET", "/1/apps/com.example.new/all-channels")
        #expect(other.2 == #"{"channels":[]}"#, "channels belong to an app")
        let deleted = bench.manage("DELETE", "/1/apps/com.example.app/channels", [("apns-channel-id", made.1)])
        #expect(deleted.0 == 204)
        let gone = bench.manage("GET", "/1/apps/com.example.app/channels", [("apns-channel-id", made.1)])
        #expect(gone.2 == "ChannelNotRegistered")
    }

    static let refusals: [(String, String, [(String, String)], String, String)] = [
        ("POST", "/1/apps/com.example.app/channels", [], "", "PayloadEmpty"),
        ("POST", "/1/apps/com.example.app/channels", [], "{", "BadRequestPayload"),
        ("POST", "/1/apps/com.example.app/channels", [], #"{"message-storage-policy":1}"#, "MissingPushType"),
        ("POST", "/1/apps/com.example.app/channels", [], #"{"push-type":"alert"}"#, "InvalidPushType"),
        ("POST", "/1/apps/com.example.app/channels", [], #"{"push-type":"LiveActivity"}"#, "BadRequestParams"),
        (
            "POST", "/1/apps/com.example.app/channels", [], #"{"message-storage-policy":2,"push-type":"LiveActivity"}"#,
            "BadRequestParams"
        ),
        ("GET", "/1/apps/com.example.app/channels", [], "", "MissingChannelId"),
        ("GET", "/1/apps/com.example.app/channels", [("apns-channel-id", "???")], "", "BadChannelId"),
        ("GET", "/1/apps/com.example.app/channels", [("apns-channel-id", "AAAA")], "", "ChannelNotRegistered"),
        (
            "POST", "/1/apps/com.example.app/channels", [],
            #"{"message-storage-policy":1,"push-type":"LiveActivity","name":"x"}"#, "BadRequestParams"
        ),
        ("GET", "/1/apps/com.example.other/all-channels", [], "", "TopicMismatch"),
        ("GET", "/1/apps/com.example.app.push-type.liveactivity/all-channels", [], "", "TopicDisallowed"),
        ("PUT", "/1/apps/com.example.app/channels", [], "", "MethodNotAllowed"),
        ("POST", "/1/apps/com.example.app/all-channels", [], "", "MethodNotAllowed"),
        ("GET", "/1/apps/com.example.app", [], "", "BadPath"),
        ("GET", "/3/device/aa", [], "", "BadPath"),
        ("GET", "/1/apps/com.example.app/all-channels", [("apns-request-id", "x")], "", "BadMessageId"),
        ("GET", "/1/apps/com.example.app/all-channels", [("authorization", "bearer x")], "", "InvalidProviderToken"),
    ]

    @Test("Management refuses what is wrong", arguments: refusals)
    func refuses(_ method: String, _ path: String, _ headers: [(String, String)], _ body: String, _ reason: String)
        throws
    {
        var bench = try Bench()
        #expect(bench.manage(method, path, headers, body).2 == reason)
    }

    @Test("An app has so many channels and no more, and only where the feature is on")
    func limits() throws {
        var bench = try Bench()
        bench.rules.options.maximumChannels = 2
        _ = bench.create()
        let second = bench.create()
        #expect(bench.post(bench.body(policy: 1)).2 == "CannotCreateChannelConfig")
        _ = bench.manage("DELETE", "/1/apps/com.example.app/channels", [("apns-channel-id", second)])
        #expect(bench.post(bench.body(policy: 1)).0 == 201)
        bench.rules.options.broadcastBundleIDs = ["com.example.new"]
        #expect(bench.post(bench.body(policy: 1)).2 == "FeatureNotEnabled")
    }

    @Test("A broadcast needs a channel of this environment, a type, and policy 0 stores nothing")
    func broadcast() throws {
        var bench = try Bench()
        let stored = bench.create(policy: 1)
        let fleeting = bench.create(policy: 0)
        let good = Self.update
        let cases: [(String?, [(String, String)], String, String?)] = [
            (stored, [], good, nil), (stored, [("apns-expiration", "1790000600")], good, nil),
            (nil, [], good, "MissingChannelId"), ("AAAA", [], good, "ChannelNotRegistered"),
            ("-", [], good, "BadChannelId"), (stored, [("apns-push-type", "")], good, "MissingPushType"),
            (stored, [("apns-push-type", "alert")], good, "InvalidPushType"),
            (stored, [("apns-priority", "9")], good, "BadPriority"),
            (fleeting, [("apns-expiration", "0")], good, nil),
            (fleeting, [("apns-expiration", "1790000600")], good, "BadExpirationDate"),
            (stored, [], "", "PayloadEmpty"),
            (stored, [], "{\"a\":\"" + String(repeating: "x", count: 5120) + "\"}", "PayloadTooLarge"),
            (stored, [], #"{"aps":{"event":"start"}}"#, "BadRequestPayload"),
            (stored, [("authorization", "Bearer x")], good, "InvalidProviderToken"),
        ]
        for (channel, headers, body, reason) in cases {
            let answer = bench.broadcast(channel, headers, body: body)
            #expect(answer == reason, "\(headers) \(body.prefix(40))")
        }
        bench.rules = APNsRules(environment: .development)
        let elsewhere = bench.broadcast(stored)
        #expect(elsewhere == "ChannelNotRegistered")
    }

    /// Apple's page on broadcasts shows a request with a certificate, which a Live Activity push to a device must not
    /// have.
    @Test("A broadcast may come with a client certificate, for an app of the certificate's")
    func certificate() throws {
        var bench = try Bench()
        let channel = bench.create()
        bench.sending.certificate = APNsProviderCertificate(topics: ["com.example.app"])
        let own = bench.broadcast(channel)
        #expect(own == nil)
        bench.sending.certificate = APNsProviderCertificate(topics: ["com.example.new"])
        let other = bench.broadcast(channel)
        #expect(other == "TopicMismatch")
    }

    @Test("Management and broadcast work over the wire, each on its own listener")
    func overTheWire() async throws {
        try await APNsSimulator.run { simulator in
            let jwt = try simulator.key.providerToken(issuedAt: Date())
            let client = try await RawClient.connect(to: simulator, .productionManagement)
            let base = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost")]
            let id = "0d9f3c52-7f5e-4a0f-9b53-0c3a2e6b1f77"
            let secured = [("authorization", "bearer \(jwt)"), ("apns-request-id", id)]
            client.sendHeaders(1, base + [(":path", "/1/apps/com.example.app/channels")] + secured)
            client.sendData(1, #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#)
            let made = try #require(await client.answer(1))
            #expect(made.status == "201")
            #expect(made.headers["apns-request-id"] == id)
            let channel = try #require(made.headers["apns-channel-id"])
            await client.close()
            let sender = try await RawClient.connect(to: simulator, .production)
            let fields = [("apns-channel-id", channel), ("apns-push-type", "liveactivity"), ("apns-expiration", "0")]
            sender.sendHeaders(1, base + [(":path", "/4/broadcasts/apps/com.example.app")] + secured + fields)
            sender.sendData(1, Self.update)
            let sent = try #require(await sender.answer(1))
            #expect(sent.status == "200")
            #expect(sent.headers["apns-request-id"] == id)
            #expect(sent.headers["apns-id"] == nil, "Apple's page on broadcasts has the request's id alone")
            #expect(simulator.counters.broadcasts == 1)
            #expect(simulator.inbox.first?.header("apns-channel-id") == channel)
            await sender.close()
        }
    }
}
