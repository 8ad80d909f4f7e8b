import Foundation
import HTTPTypes
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// Messages to every user of a platform, by the audience, the backend's section and the key.
@Suite("A message to every user of a platform", .timeLimit(.minutes(1)))
struct APIBroadcastTests {
    /// An audience of a request.
    enum Audience: String, CaseIterable {
        case everyone, tagsWithoutPositive, tags, topicOfEverybody, topic, platformID

        var json: String {
            switch self {
            case .everyone: #"{"everyone":true}"#
            case .tagsWithoutPositive: #"{"tags":{"none":["muted"]}}"#
            case .tags: #"{"tags":{"all":["vip"],"none":["muted"]}}"#
            case .topicOfEverybody: #"{"topic":"All"}"#
            case .topic: #"{"topic":"news"}"#
            case .platformID: #"{"platform_ids":["p"]}"#
            }
        }
        var isEverybody: Bool {
            switch self {
            case .everyone, .tagsWithoutPositive, .topicOfEverybody: true
            case .tags, .topic, .platformID: false
            }
        }
        /// Whether the request must name the backend, also where there is but one.
        var needsBackend: Bool { self == .platformID }
        /// Whether the request means the own registry unless it names a backend.
        var isOfRegistry: Bool {
            switch self {
            case .everyone, .tagsWithoutPositive, .tags: true
            case .platformID, .topicOfEverybody, .topic: false
            }
        }
        var pointer: String {
            switch self {
            case .everyone: "#/to/everyone"
            case .tagsWithoutPositive, .tags: "#/to/tags"
            case .topicOfEverybody, .topic: "#/to/topic"
            case .platformID: "#/to/platform_ids"
            }
        }
    }

    struct Case: CustomTestStringConvertible {
        var audience: Audience
        var isAllowed: Bool
        var hasScope: Bool
        var backends: Int
        var isNamed: Bool

        var testDescription: String {
            "\(audience), allowed \(isAllowed), scope \(hasScope), \(backends) backends, named \(isNamed)"
        }

        /// The expected answer: the status, and the errors of a refusal.
        var expected: (status: Int, errors: [String]) { expected(inBatch: false) }

        func expected(inBatch: Bool) -> (status: Int, errors: [String]) {
            if !isNamed, audience.isOfRegistry {
                // A batch has no audiences of the registry, with any key.
                if audience.isEverybody, !hasScope, !inBatch { return (403, ["\(audience.pointer) scope_missing"]) }
                return (422, ["\(audience.pointer) audience_not_supported"])
            }
            if !isNamed {
                if audience.needsBackend { return (422, ["#/backend backend_missing"]) }
                if backends > 1 { return (422, ["\(audience.pointer) backend_missing"]) }
            }
            guard audience.isEverybody else { return (202, []) }
            guard hasScope else { return (403, ["\(audience.pointer) scope_missing"]) }
            return isAllowed ? (202, []) : (422, ["\(audience.pointer) broadcast_not_allowed"])
        }
    }

    static let cases: [Case] = Audience.allCases.flatMap { audience in
        [false, true].flatMap { isAllowed in
            [false, true].flatMap { hasScope in
                [1, 2].flatMap { backends in
                    [false, true].map { isNamed in
                        Case(
                            audience: audience,
                            isAllowed: isAllowed,
                            hasScope: hasScope,
                            backends: backends,
                            isNamed: isNamed
                        )
                    }
                }
            }
        }
    }

    private static func platform(_ name: String, isAllowed: Bool) -> StubBackend {
        StubBackend(
            name: name,
            kind: "crm",
            audience: BackendAudience(
                forms: [.platformID, .topic, .tags, .everyone],
                broadcast: BroadcastRule(isAllowed: isAllowed, topics: ["all"])
            )
        )
    }

    private static func harness(_ one: Case) -> APIHarness {
        APIHarness(
            backends: ["first", "second"].prefix(one.backends).map { platform($0, isAllowed: one.isAllowed) },
            keys: [
                APIHarness.key("plain", [.send]), APIHarness.key("loud", [.send, .broadcast]),
                APIHarness.key("root", [.admin]),
            ]
        ) { configuration in
            configuration.routes = [
                GatewayConfiguration.Route(name: "crm", platform: "ios", plan: DeliveryPlan(["first"]))
            ]
        }
    }

    private static func body(_ one: Case, _ more: String = "") -> String {
        #"{"to":\#(one.audience.json),"content":{"title":"x"}\#(one.isNamed ? #","backend":"first""# : "")\#(more)}"#
    }

    @Test("needs the backend's name, allow_broadcast in its section and the scope", arguments: cases)
    func single(one: Case) async throws {
        let harness = Self.harness(one)
        let key = APIHarness.bearer(one.hasScope ? "loud" : "plain")
        let reply = try await harness.post(Self.body(one), headers: key)
        #expect(reply.status == one.expected.status, "\(reply.text)")
        #expect(reply.errors == one.expected.errors, "\(reply.text)")
        #expect(harness.store.accepted.map(\.plan.backends) == (reply.status == 202 ? [["first"]] : []))
        if reply.status == 403 {
            #expect(reply.code == "forbidden")
            #expect(reply.headers[.wwwAuthenticate]?.contains(#"scope="broadcast""#) == true)
        }
        if one.expected.errors.first?.hasSuffix("backend_missing") == true {
            let names = ["first", "second"].prefix(one.backends).joined(separator: ", ")
            #expect(reply.text.contains(names), "\(reply.text)")
        }
        let administrators = try await harness.post(Self.body(one), headers: APIHarness.bearer("root"))
        let expected = Case(
            audience: one.audience,
            isAllowed: one.isAllowed,
            hasScope: true,
            backends: one.backends,
            isNamed: one.isNamed
        ).expected
        #expect(administrators.status == expected.status && administrators.errors == expected.errors)
    }

    @Test("is answered for itself within a batch", arguments: cases)
    func batch(one: Case) async throws {
        let harness = Self.harness(one)
        let good = #"{"to":{"topic":"news"},"content":{"title":"y"},"backend":"first"}"#
        let reply = try await harness.send(
            .post,
            "/v1/notifications/batch",
            #"{"notifications":[\#(good),\#(Self.body(one))]}"#,
            headers: APIHarness.bearer(one.hasScope ? "loud" : "plain")
        )
        #expect(reply.status == 202, "\(reply.text)")
        let item = reply.json["notifications"]?.arrayValue?.last
        let expected = one.expected(inBatch: true)
        #expect(item?["status"] == .integer(Int64(expected.status)), "\(reply.text)")
        if expected.status != 202 {
            let errors = expected.errors.map { $0.replacing("#/", with: "#/notifications/1/", maxReplacements: 1) }
            #expect(APIHarness.errors(of: item?["problem"]) == errors)
            #expect(item?["problem"]?["status"] == item?["status"])
        }
    }

    @Test("is refused as a whole where all of a batch lack the scope")
    func wholeBatch() async throws {
        let one = Case(audience: .everyone, isAllowed: true, hasScope: false, backends: 1, isNamed: true)
        let reply = try await Self.harness(one).send(
            .post,
            "/v1/notifications/batch",
            #"{"notifications":[\#(Self.body(one))]}"#,
            headers: APIHarness.bearer("plain")
        )
        #expect(reply.status == 422 && reply.code == "nothing_accepted", "\(reply.text)")
        #expect(reply.json["notifications"]?.arrayValue?.first?["status"] == 403)
    }

    @Test("needs the backend's name from code and by a route as well", arguments: Audience.allCases)
    func otherDoors(audience: Audience) async throws {
        for isNamed in [false, true] {
            let one = Case(audience: audience, isAllowed: true, hasScope: true, backends: 2, isNamed: isNamed)
            let harness = Self.harness(one)
            var status = 202
            do throws(Problem) {
                _ = try await harness.api.responder.accept(Array(Self.body(one).utf8), idempotencyKey: nil)
            } catch {
                status = error.status.code
            }
            #expect(status == one.expected.status)
            guard !isNamed, audience.needsBackend || audience.isOfRegistry else { continue }
            let routed = try await harness.post(
                Self.body(one, #","route":"crm""#),
                headers: APIHarness.bearer("loud")
            )
            #expect(routed.errors == one.expected.errors, "\(routed.text)")
        }
    }

    @Test("A topic needs no backend's name where a route says where it goes", arguments: ["", #","route":"crm""#])
    func routedTopic(route: String) async throws {
        let harness = APIHarness(backends: ["first", "second"].map { Self.platform($0, isAllowed: false) }) {
            $0.routes = [GatewayConfiguration.Route(name: "crm", plan: DeliveryPlan(["second", "first"]))]
        }
        let reply = try await harness.post(#"{"to":{"topic":"news"},"content":{"title":"x"}\#(route)}"#)
        #expect(reply.status == 202, "\(reply.text)")
        #expect(harness.store.accepted.map(\.plan.backends) == [["second", "first"]])
    }

    @Test("is checked by `chapar send` without a gateway, which needs no key")
    func direct() {
        for isAllowed in [false, true] {
            let backend = Self.platform("first", isAllowed: isAllowed)
            let snapshot = GatewaySnapshot(
                configuration: .keyless,
                backends: [BackendRegistry.ConfiguredBackend(name: "first", backend: backend)]
            )
            let one = Case(audience: .everyone, isAllowed: isAllowed, hasScope: true, backends: 1, isNamed: true)
            var codes: [String] = []
            do throws(DirectRequest.Refused) {
                _ = try DirectRequest(reading: Array(Self.body(one).utf8), snapshot: snapshot, knownKinds: [])
            } catch {
                codes = error.issues.map(\.code)
            }
            #expect(codes == (isAllowed ? [] : ["broadcast_not_allowed"]))
        }
    }

    @Test("goes to the one backend that the key is for, and other backends' names are not told")
    func boundKey() async throws {
        let harness = APIHarness(
            backends: ["first", "second", "third"].map { Self.platform($0, isAllowed: true) },
            keys: [
                APIHarness.key("one", [.send, .broadcast], backends: ["second"]),
                APIHarness.key("two", [.send, .broadcast], backends: ["second", "third"]),
            ]
        )
        func post(_ to: String, _ key: String) async throws -> APIHarness.Reply {
            try await harness.post(#"{"to":\#(to),"content":{"title":"x"}}"#, headers: APIHarness.bearer(key))
        }
        #expect(try await post(Audience.topic.json, "one").status == 202)
        #expect(harness.store.accepted.map(\.plan.backends) == [["second"]])
        for audience in [Audience.topic, .everyone, .platformID] {
            let refused = try await post(audience.json, "two")
            // Everyone is everyone of the own registry, whose tokens none of the backends takes.
            let words = audience == .everyone ? "No configured backend takes tokens" : "second, third"
            #expect(refused.status == 422 && refused.text.contains(words), "\(refused.text)")
            #expect(!refused.text.contains("first"), "\(refused.text)")
        }
    }

    @Test("gets one issue for many ids of a platform")
    func manyIDs() async throws {
        let one = Case(audience: .platformID, isAllowed: false, hasScope: false, backends: 2, isNamed: false)
        let reply = try await Self.harness(one).post(
            #"{"to":{"platform_ids":["a","b","c"]},"content":{"title":"x"}}"#,
            headers: APIHarness.bearer("plain")
        )
        #expect(reply.errors == ["#/backend backend_missing"], "\(reply.text)")
    }

    @Test("needs no scope while there are no keys, but allow_broadcast in the section")
    func keyless() async throws {
        for isAllowed in [false, true] {
            let harness = APIHarness(backends: [Self.platform("first", isAllowed: isAllowed)])
            let reply = try await harness.post(#"{"to":{"everyone":true},"content":{"title":"x"},"backend":"first"}"#)
            #expect(reply.status == (isAllowed ? 202 : 422), "\(reply.text)")
        }
    }
}
