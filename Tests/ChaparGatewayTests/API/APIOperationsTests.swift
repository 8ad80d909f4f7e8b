import ChaparTesting
import Synchronization
import Foundation
import HTTPTypes
import ChaparCore
import ChaparSandbox
import ChaparQueue
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("The gateway's front", .timeLimit(.minutes(1)))
struct APIOperationsTests {
    @Test(
        "answers other methods with 405 and those it knows",
        arguments: [
            (.put, "/v1/notifications", "POST, DELETE, GET, HEAD"), (.put, "/v1/notifications/batch", "POST"),
            (.post, "/v1/notifications/0000000000001", "GET, HEAD, DELETE, PATCH"), (.post, "/v1/events", "GET, HEAD"),
            (.delete, "/", "GET, HEAD"), (.options, "/metrics", "GET, HEAD"),
        ] as [(HTTPRequest.Method, String, String)]
    )
    func method(method: HTTPRequest.Method, path: String, allowed: String) async throws {
        let reply = try await APIHarness().send(method, path, "{}")
        #expect(reply.status == 405)
        #expect(reply.headers[.allow] == allowed)
        #expect(reply.code == "method_not_allowed")
    }

    @Test(
        "answers paths it does not know with 404",
        arguments: [
            "/v1", "/v1/notifications/", "/v1/notifications/1/deliveries/2", "/v2/notifications", "/favicon.ico", "//",
            "/v1/notifications/1/attempts",
        ]
    )
    func path(path: String) async throws {
        let reply = try await APIHarness().send(.get, path)
        #expect(reply.status == 404)
        #expect(reply.headers[.contentType] == "application/problem+json")
    }

    @Test("answers HEAD with the head of GET", arguments: ["/healthz", "/v1/backends", "/openapi.json", "/"])
    func head(path: String) async throws {
        let harness = APIHarness()
        let get = try await harness.send(.get, path)
        let head = try await harness.send(.head, path)
        #expect(head.status == get.status)
        #expect(head.headers[.contentType] == get.headers[.contentType])
        #expect(head.headers[.contentLength] == get.headers[.contentLength])
        #expect(head.bytes.isEmpty)
    }

    @Test("is ready while the store takes work, whatever the platforms do")
    func readiness() async throws {
        var ios = StubBackend.ios
        ios.health = BackendHealth(status: .down)
        let harness = APIHarness(backends: [ios])
        #expect(try await harness.send(.get, "/readyz", host: "10.1.2.3").status == 200)
        harness.store.show(StoreHealth(acceptsWork: false, detail: "/data is full", freeBytes: 7, usedBytes: 9))
        let full = try await harness.send(.get, "/readyz")
        #expect(full.status == 503)
        let told: JSONValue = ["status": "store_refuses_work", "store": ["accepts_work": false]]
        #expect(full.json == told, "strangers learn no path and no sizes: \(full.text)")
        #expect(try await harness.send(.get, "/healthz").status == 200)
        harness.store.show(StoreHealth(acceptsWork: true))
        #expect(try await APIHarness(backends: []).send(.get, "/readyz").json["status"] == "no_backends")
        harness.state.beginDraining()
        let draining = try await harness.send(.get, "/readyz")
        #expect(draining.status == 503)
        #expect(draining.json["status"] == "draining")
    }

    @Test("shows its build to callers with a key, and only that it runs to others")
    func build() async throws {
        let key = APIHarness.key("shop", [.send], notAfter: Date(timeIntervalSince1970: 1_800_000_100))
        let harness = APIHarness(keys: [key])
        let alive: JSONValue = ["status": "ok"]
        #expect(try await harness.send(.get, "/healthz").json == alive)
        let unknown: HTTPFields = [.authorization: "Bearer another"]
        #expect(try await harness.send(.get, "/healthz", headers: unknown).json == alive, "a probe is never refused")
        let known = try await harness.send(.get, "/healthz", headers: APIHarness.bearer("shop")).json
        #expect(known["status"] == "ok")
        #expect(known["version"] == .string(BuildInfo.current.version))
        #expect(known["commit"] == "unknown")
        #expect(known["swift"] == .string(BuildInfo.compiler))
        #expect(known["libraries"] == [:])
        harness.time.advance(by: .seconds(200))
        #expect(try await harness.send(.get, "/healthz", headers: APIHarness.bearer("shop")).json == alive)
        // Without keys this machine may ask, and no proxy may for others.
        let open = APIHarness()
        #expect(try await open.send(.get, "/healthz").json["version"] != nil)
        let passed = try await open.send(.get, "/healthz", headers: [.xForwardedFor: "192.0.2.1"])
        #expect(passed.status == 200 && passed.json == alive)
    }

    @Test("tells what each backend is, can do and has before it")
    func backends() async throws {
        var ios = StubBackend.ios
        ios.health = BackendHealth(
            status: .degraded,
            detail: "One connection is missing.",
            connections: 1,
            credentialExpiries: ["client_certificate": Date(timeIntervalSince1970: 1_800_000_000)]
        )
        let harness = APIHarness(backends: [ios, .android])
        _ = try await harness.post(APIHarness.sample())
        harness.time.advance(by: .seconds(90))
        let reply = try await harness.send(.get, "/v1/backends")
        let backends = try #require(reply.json["backends"]?.arrayValue)
        #expect(backends.map { $0["name"] } == ["ios", "android"])
        #expect(backends[0]["kind"] == "apns")
        #expect(backends[0]["audience"] == ["services": ["ios-apns"], "forms": ["platform_id"]])
        #expect(backends[0]["abilities"] == ["send"])
        #expect(backends[0]["health"]?["status"] == "degraded")
        #expect(backends[0]["health"]?["credential_expiries"]?["client_certificate"] == "2027-01-15T08:00:00.000Z")
        #expect(backends[0]["worker"]?["in_flight"] == 3)
        #expect(backends[0]["worker"]?["window"] == 1000)
        #expect(backends[0]["worker"]?["waiting"] == 1)
        #expect(backends[0]["worker"]?["oldest_age"]?.text == "90.0")
        #expect(backends[1]["worker"]?["parked"] == true)
        for backend in backends {
            var worker = try #require(backend["worker"]?.objectValue)
            var lane = try #require(backend["lane"]?.objectValue)
            #expect(worker["invalidations_quarantined"] == lane["invalidations_held"])
            #expect(worker["invalidations_quarantined"] == false)
            (worker["invalidations_quarantined"], lane["invalidations_held"]) = (nil, nil)
            #expect(worker == lane, "the old name has what the present one has")
        }
        #expect(backends[1]["health"]?["status"] == "down", "a backend that nothing goes through is not well")
        #expect(backends[1]["health"]?["detail"] == "parked, invalid_grant: Log in again.")
        #expect(reply.json["credential_expiries"] == [:])
        #expect(reply.json["credential_warning_days"] == 30)
    }

    @Test("tells when its own certificate and the caller's key end, and administrators those of all keys")
    func ownCredentials() async throws {
        let identity = try SandboxCertificateAuthority().serverIdentity(now: Date(timeIntervalSince1970: 1_800_000_000))
        let end = Date(timeIntervalSince1970: 1_800_500_000)
        let keys = [
            APIHarness.key("admin", [.admin]), APIHarness.key("shop", [.read], notAfter: end),
            APIHarness.key("other", [.read], notAfter: end + 60), APIHarness.key("endless", [.read]),
        ]
        let harness = APIHarness(keys: keys) {
            $0.tls = GatewayConfiguration.TLS(
                certificates: Array(identity.certificatePEM.utf8),
                key: Array(identity.privateKeyPEM.utf8)
            )
        }
        let server: JSONValue = .string(RFC3339.string(Date(timeIntervalSince1970: 1_800_000_000 + 30 * 86_400)))
        let (shop, other) = (JSONValue.string(RFC3339.string(end)), JSONValue.string(RFC3339.string(end + 60)))
        for (key, expected) in [
            ("shop", ["server_certificate": server, "api_key.shop": shop]), ("endless", ["server_certificate": server]),
            ("admin", ["server_certificate": server, "api_key.shop": shop, "api_key.other": other]),
        ] as [(String, JSONValue)] {
            let reply = try await harness.send(.get, "/v1/backends", headers: APIHarness.bearer(key))
            #expect(reply.json["credential_expiries"] == expected, "\(key)")
        }
        let metrics = try await harness.send(.get, "/metrics", headers: APIHarness.bearer("admin")).text
        let sample =
            #"chapar_credential_expiry_timestamp_seconds{backend="",credential="server_certificate"} 1802592000"#
        #expect(metrics.contains(sample))
    }

    @Test("names every object and vocabulary of its description, and the licence, for generated clients")
    func named() async throws {
        let description = try await APIHarness().send(.get, "/openapi.json").json
        #expect(description["info"]?["license"]?["identifier"] == "Apache-2.0")
        let schemas = try #require(description["components"]?["schemas"]?.objectValue)
        #expect(schemas["Audience"]?["properties"]?["everyone"]?["type"] == "boolean")
        var unnamed: [String] = []
        func visit(_ schema: JSONValue?, _ place: String, isNamed: Bool = false) {
            guard let schema else { return }
            if !isNamed, schema["properties"] != nil || schema["enum"] != nil { unnamed.append(place) }
            for (name, property) in schema["properties"]?.objectValue ?? [:] { visit(property, "\(place).\(name)") }
            for word in ["items", "additionalProperties"] { visit(schema[word], "\(place).\(word)") }
            for word in ["oneOf", "anyOf"] {
                for choice in schema[word]?.arrayValue ?? [] { visit(choice, "\(place).\(word)") }
            }
        }
        func visitContent(of holder: JSONValue?, _ place: String) {
            for (kind, content) in holder?["content"]?.objectValue ?? [:] {
                visit(content["schema"], "\(place) \(kind)")
            }
        }
        for (name, schema) in schemas { visit(schema, name, isNamed: true) }
        for (path, methods) in description["paths"]?.objectValue ?? [:] {
            for (method, operation) in methods.objectValue ?? [:] {
                let place = "\(method) \(path)"
                for parameter in operation["parameters"]?.arrayValue ?? [] { visit(parameter["schema"], place) }
                visitContent(of: operation["requestBody"], place)
                for (status, answer) in operation["responses"]?.objectValue ?? [:] {
                    visitContent(of: answer, "\(place) \(status)")
                }
            }
        }
        #expect(unnamed == [])
    }

    @Test("serves its description with its version, and a page that may only run its own script")
    func documents() async throws {
        let description = try await APIHarness().send(.get, "/openapi.json")
        #expect(description.json["openapi"] == "3.1.0")
        #expect(description.json["info"]?["version"] == .string(BuildInfo.current.version))
        let page = try await APIHarness().send(.get, "/")
        let policy = try #require(page.headers[.contentSecurityPolicy])
        #expect(policy.hasPrefix("default-src 'none'; script-src 'sha256-"))
        #expect(policy.contains("style-src 'sha256-"))
        // The namespace of SVG, and the address in an example of a command: nothing is loaded from either.
        let addresses = page.text.matches(of: /https?:\/\/[^"\s]+/).map { String($0.output) }
        #expect(Set(addresses) == ["http://www.w3.org/2000/svg", "https://shop.example/hooks"])
    }
}

@Suite("Under pressure the gateway", .timeLimit(.minutes(1)))
struct APIPressureTests {
    @Test("says that the store is full, when to come again, and stores nothing")
    func full() async throws {
        let harness = APIHarness()
        harness.store.fail(.full(reason: "5,000,000 deliveries wait", retryAfter: .milliseconds(1200)))
        for (path, body) in [
            ("/v1/notifications", APIHarness.sample()),
            ("/v1/notifications/batch", "{\"notifications\":[\(APIHarness.sample())]}"),
        ] {
            let reply = try await harness.send(.post, path, body)
            #expect(reply.status == 503)
            #expect(reply.code == "store_full")
            #expect(reply.headers[.retryAfter] == "2")
            #expect(reply.json["retryable"] == true)
            #expect(reply.json["detail"] == "5,000,000 deliveries wait. Nothing was stored.")
        }
    }

    @Test("does not show the store's own words when it fails")
    func failed() async throws {
        let harness = APIHarness()
        harness.store.fail(.failed("SQLITE_IOERR at page 7"))
        let reply = try await harness.post(APIHarness.sample())
        #expect(reply.status == 503)
        #expect(reply.code == "store_failed")
        #expect(!reply.text.contains("SQLITE"))
        #expect(try await harness.send(.get, "/v1/backends").status == 503)
        let metrics = try PrometheusSamples(try await harness.send(.get, "/metrics").text)
        #expect(metrics["chapar_store_up"] == 0, "metrics are needed most when something fails")
        #expect(metrics["chapar_inflight{backend=\"ios\"}"] == 3)
    }

    @Test("refuses requests above its bound at once, and health never")
    func busy() async throws {
        let harness = APIHarness { $0.server.maximumRequests = 1 }
        harness.store.hold()
        async let first = harness.post(APIHarness.sample())
        await harness.store.heldOne()
        let second = try await harness.post(APIHarness.sample())
        #expect(second.status == 503)
        #expect(second.code == "too_busy")
        #expect(second.headers[.retryAfter] == "1")
        #expect(try await harness.send(.get, "/healthz").status == 200)
        harness.store.release()
        #expect(try await first.status == 202)
        #expect(try await harness.post(APIHarness.sample()).status == 202)
    }

    @Test("takes no new work while it shuts down, and still tells what became of the old")
    func draining() async throws {
        let harness = APIHarness()
        #expect(try await harness.post(APIHarness.sample()).status == 202)
        let id = try #require(harness.store.accepted.first?.id)
        harness.state.beginDraining()
        let reply = try await harness.post(APIHarness.sample())
        #expect(reply.status == 503)
        #expect(reply.code == "draining")
        #expect(try await harness.send(.get, "/v1/notifications/\(id)").status == 200)
    }

    @Test("holds the bodies of requests within a budget")
    func memory() throws {
        let admission = Admission()
        let (largest, small) = (8 << 20, Admission.smallBody)
        func reserve(_ bytes: Int, _ caller: String, from peer: Substring = "192.0.2.1") throws {
            try admission.reserve(bytes: bytes, payer: payer(caller, peer), largest: largest)
        }
        #expect(Admission.budget(largest: largest) == 64 << 20)
        for _ in 0..<4 { try reserve(largest, "shop") }
        #expect(throws: Problem.self, "one caller gets half") { try reserve(small + 1, "shop") }
        for _ in 0..<2 { try reserve(largest, "crm", from: "192.0.2.2") }
        #expect(throws: Problem.self, "a quarter is for small bodies") {
            try reserve(small + 1, "other", from: "192.0.2.3")
        }
        for number in 0..<256 { try reserve(small, number % 2 == 0 ? "shop" : "other", from: "192.0.2.3") }
        #expect(throws: Problem.self, "the whole is bounded") { try reserve(1, "other", from: "192.0.2.4") }
        for _ in 0..<256 { admission.release(bytes: small, payer: payer("other", "192.0.2.3")) }
        admission.release(bytes: largest, payer: payer("shop", "192.0.2.1"))
        try reserve(largest, "shop")
        #expect(throws: Problem.self) { try reserve(small + 1, "shop") }
        try reserve(small, "shop", from: "192.0.2.3")
    }

    private func payer(_ caller: String, _ peer: Substring) -> Admission.Payer {
        Admission.Payer(caller: caller, peer: PeerAddress(peer) ?? .local)
    }

    @Test("lets the bodies of one peer hold three quarters of the budget, whatever the keys and however small they are")
    func memoryOfPeer() throws {
        let admission = Admission()
        let largest = 1 << 20
        let (one, other) = (payer("", "192.0.2.1"), payer("", "192.0.2.2"))
        for number in 0..<768 {
            try admission.reserve(bytes: 64 << 10, payer: payer("key \(number)", "192.0.2.1"), largest: largest)
        }
        let refused = #expect(throws: Problem.self) {
            try admission.reserve(bytes: Admission.tinyBody + 1, payer: one, largest: largest)
        }
        #expect(refused?.status == .serviceUnavailable && refused?.limit == .bodyBytesPerPeer)
        try admission.reserve(bytes: Admission.tinyBody, payer: one, largest: largest)
        for _ in 0..<255 { try admission.reserve(bytes: 64 << 10, payer: other, largest: largest) }
        admission.release(bytes: 64 << 10, payer: payer("key 0", "192.0.2.1"))
        try admission.reserve(bytes: 64 << 10, payer: one, largest: largest)
        #expect(throws: Problem.self) { try admission.reserve(bytes: 64 << 10, payer: one, largest: largest) }
    }

    @Test(
        "sets memory aside for trees of small values until they are stored, whichever way they come, and takes only so many"
    )
    func trees() async throws {
        let harness = APIHarness { $0.server.port = 0 }
        // A value of 2 bytes, and an array of it, of 4 with its comma.
        let list = "[" + Array(repeating: "[0]", count: 5000).joined(separator: ",") + "]"
        let body = APIHarness.sample(content: #"{"data":{"a":\#(list)}}"#)
        let values = 1 + 2 * 5000
        func isSetAside() async throws {
            await harness.store.heldOne()
            #expect(harness.api.responder.bodyBytes == values * Admission.bytesOfTreeValue)
            harness.store.release()
        }
        harness.store.hold()
        async let long = harness.post(body)
        try await isSetAside()
        #expect(try await long.status == 202)
        harness.store.hold()
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                try await client.send(
                    "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
                )
                try await isSetAside()
                #expect(try await client.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 202 "))
            }
        }
        #expect(harness.api.responder.bodyBytes == 0)
        let batch = #"{"notifications":[\#(Array(repeating: body, count: 20).joined(separator: ","))]}"#
        let refused = try await harness.send(.post, "/v1/notifications/batch", batch)
        #expect(refused.status == 413 && refused.code == "too_many_values")
        #expect(harness.api.responder.bodyBytes == 0 && harness.store.accepted.count == 2)
    }

    @Test("lets the largest body in that a configuration allows", arguments: [1 << 10, 8 << 20, 256 << 20])
    func largestBody(largest: Int) throws {
        let admission = Admission()
        for (caller, peer) in [("shop", "192.0.2.1"), ("crm", "192.0.2.1"), ("shop", "192.0.2.2")] {
            try admission.reserve(bytes: largest, payer: payer(caller, peer[...]), largest: largest)
        }
        let small = min(largest, Admission.smallBody)
        try admission.reserve(bytes: small, payer: payer("", "192.0.2.2"), largest: largest)
    }
}
