import Foundation
import HTTPTypes
import HummingbirdCore
import NIOCore
import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// No peer can keep others away by many requests.
@Suite("A caller's share", .timeLimit(.minutes(1)))
struct APIPeerLimitsTests {
    private let start = Date(timeIntervalSince1970: 1_800_000_000)

    @Test("is so many requests a second, with fields that say how many and when again")
    func rate() async throws {
        var slow = APIHarness.key("slow", [.send])
        slow.requestsPerSecond = 2
        let harness = APIHarness(keys: [slow, APIHarness.key("fast", [.send])])
        for _ in 0..<2 {
            #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("slow")).status == 202)
        }
        let refused = try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("slow"))
        #expect(refused.status == 429)
        #expect(refused.code == "rate_limited")
        #expect(refused.headers[.retryAfter] == "1")
        #expect(refused.headers[.rateLimitPolicy] == #""requests";q=2;w=1"#)
        #expect(refused.headers[.rateLimit] == #""requests";r=0;t=1"#)
        #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("fast")).status == 202)
        harness.time.advance(by: .milliseconds(500))
        #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("slow")).status == 202)
        let scraped = try await harness.send(.get, "/metrics", headers: APIHarness.bearer("fast"))
        #expect(scraped.status == 403)
        #expect(harness.store.accepted.count == 4)
    }

    @Test("of requests a second counts a request once, whichever way it goes on a connection")
    func rateOnConnection() async throws {
        var key = APIHarness.key("shop", [.send])
        key.requestsPerSecond = 3
        let harness = APIHarness(keys: [key]) { $0.server.port = 0 }
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                // The third names a device, which is looked up on the long way.
                let device = #"{"to":{"devices":["d"]},"content":{"title":"x"}}"#
                for (body, status) in [
                    (APIHarness.sample(), 202), (APIHarness.sample(), 202), (device, 422), (device, 429),
                ] {
                    try await client.send(
                        "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer chp_shop\r\n"
                            + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
                    )
                    let head = try await client.read(until: "\r\n\r\n")
                    #expect(head.hasPrefix("HTTP/1.1 \(status) "))
                    let length = head.split(separator: "\r\n").first {
                        $0.hasPrefix("Content-Length: ") || $0.hasPrefix("content-length: ")
                    }
                    .flatMap { Int($0.dropFirst(16)) }
                    _ = try await client.read(count: length ?? 0)
                }
            }
        }
    }

    @Test("of attempts without the right key is bounded, for each peer")
    func guesses() {
        let peers = Peers()
        let (one, other) = (PeerAddress("192.0.2.1"), PeerAddress("192.0.2.2"))
        guard let one, let other else { return #expect(Bool(false)) }
        for _ in 0..<200 { #expect(peers.refuse(one, at: start) == nil) }
        #expect(peers.refuse(one, at: start) != nil)
        #expect(peers.refuse(other, at: start) == nil)
        #expect(peers.refuse(one, at: start + 1) == nil)
    }

    @Test("of attempts is remembered for a bounded number of peers, and those that guess most are kept")
    func memory() throws {
        let peers = Peers()
        let guesser = try #require(PeerAddress("192.0.2.1"))
        for _ in 0..<201 { _ = peers.refuse(guesser, at: start) }
        for number in 0..<25_000 {
            let peer = try #require(PeerAddress("10.0.\(number / 256).\(number % 256)"))
            _ = peers.refuse(peer, at: start)
        }
        #expect(peers.remembered <= 10_000)
        #expect(peers.refuse(guesser, at: start) != nil)
    }

    @Test("is answered with 429 once too many keys were guessed")
    func guessed() async throws {
        let harness = APIHarness(keys: [APIHarness.key("shop", [.send])])
        for _ in 0..<200 {
            #expect(try await harness.send(.get, "/v1/backends", headers: APIHarness.bearer("x")).status == 401)
        }
        #expect(try await harness.send(.get, "/v1/backends", headers: APIHarness.bearer("x")).status == 429)
    }

    @Test("of connections is bounded for each address, and free again when they end")
    func connections() async throws {
        let harness = APIHarness {
            $0.server.port = 0
            $0.limits.connectionsPerPeer = 2
        }
        try await harness.serve { port, _ in
            try await RawClient.run(port) { first in
                try await first.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                _ = try await first.read(until: "}")
                try await RawClient.run(port) { second in
                    try await second.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    _ = try await second.read(until: "}")
                    try await RawClient.run(port) { third in
                        await #expect(throws: (any Error).self) {
                            try await third.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                            _ = try await third.read(until: "}")
                        }
                    }
                    try await second.finish()
                }
            }
            try await eventually("the connections end") { harness.api.responder.peerLoad.peers == 0 }
            try await RawClient.run(port) { client in
                try await client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                _ = try await client.read(until: "}")
            }
        }
        let text = try await harness.send(.get, "/metrics").text
        #expect(text.contains(#"chapar_limit_refusals_total{limit="connections_per_peer"} 1"#))
    }

    @Test(
        "of connections leaves some to others, however many addresses take all that they get, and comes back when they end"
    )
    func sharedConnections() async throws {
        // 16 requests and 100 event streams: 116 connections, of which one address alone may have 58.
        let harness = APIHarness {
            $0.server.port = 0
            $0.server.maximumRequests = 16
        }
        let probe = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        let attackers = (2...4).map { "127.0.0.\($0)" }
        try await harness.serve { port, _ in
            for round in 0..<2 {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for attacker in attackers {
                        for _ in 0..<58 {
                            // Half a head, and nothing more for as long as the server waits.
                            group.addTask {
                                _ = try await RawClient.converse(port, from: attacker) { outbound in
                                    try await outbound.write(ByteBuffer(string: "GET /healthz HTTP/1.1\r\n"))
                                }
                            }
                        }
                    }
                    try await eventually("87 connections are held", within: .seconds(20)) {
                        harness.api.responder.peerLoad.total >= 87
                    }
                    // Another address is answered, round after round, and has no less than each of them.
                    for _ in 0..<20 {
                        let answer = try await RawClient.converse(port, from: "127.0.0.\(9 + round)") { outbound in
                            try await outbound.write(ByteBuffer(string: probe))
                            outbound.finish()
                        }
                        #expect(answer.text.hasPrefix("HTTP/1.1 200"), "\(answer)")
                    }
                    #expect(harness.api.responder.peerLoad.most <= 58)
                    group.cancelAll()
                    while let result = await group.nextResult() { _ = result }
                }
                try await eventually("the connections end") { harness.api.responder.peerLoad.total == 0 }
            }
        }
    }

    /// Connections of a server, each held until it has to give way.
    final class Held: Sendable {
        let peers: Peers
        private let numbers = Mutex<[PeerAddress: Set<UInt64>]>([:])

        init(_ capacity: Int) { peers = Peers(connections: capacity) }

        func count(_ peer: PeerAddress) -> Int { numbers.withLock { $0[peer]?.count ?? 0 } }

        /// Connects, and gives the place back as soon as it is asked to.
        func connect(_ peer: PeerAddress) -> Bool {
            let own = Mutex<UInt64?>(nil)
            let number = peers.connect(peer, limit: 1_000) { [self] in
                guard let number = own.withLock({ $0 }) else { return }
                numbers.withLock { _ = $0[peer]?.remove(number) }
                peers.disconnect(peer, number)
            }
            guard let number else { return false }
            own.withLock { $0 = number }
            numbers.withLock { _ = $0[peer, default: []].insert(number) }
            return true
        }
    }

    @Test(
        "of connections comes to one share for each address, one after the other too",
        arguments: [1, 3, 10, 20, 100],
        [true, false]
    )
    func shares(addresses: Int, isOneByOne: Bool) throws {
        let held = Held(1_100)
        let all = try (0..<addresses).map { try #require(PeerAddress("10.0.0.\($0)")) }
        if isOneByOne {
            for peer in all { for _ in 0..<1_100 { _ = held.connect(peer) } }
        } else {
            for _ in 0..<1_100 { for peer in all { _ = held.connect(peer) } }
        }
        // The next ones get a share too, while the others try again and again.
        let share = min(1_000, 1_100 / (addresses + 3))
        for number in 1...2 {
            let next = try #require(PeerAddress("192.0.2.\(number)"))
            for _ in 0..<share / 2 {
                #expect(held.connect(next))
                for peer in all { _ = held.connect(peer) }
            }
            #expect(held.count(next) == share / 2)
        }
        #expect(held.peers.load.total <= 1_100)
    }

    @Test("of requests in progress behind a trusted proxy comes to one share for each address and one for the next")
    func forwardedShares() throws {
        let peers = Peers(connections: 1_100)
        let next = try #require(PeerAddress("192.0.2.1"))
        let all = try (0..<10).map { try #require(PeerAddress("10.0.0.\($0)")) }
        var requests = 0
        for _ in 0..<1_100 { for peer in all where peers.beginForwarded(peer, limit: 1_000, of: 500) { requests += 1 } }
        #expect(500 - requests >= 500 / 11 && peers.beginForwarded(next, limit: 1_000, of: 500))
    }

    @Test("of the memory of bodies is bounded for each address, behind a trusted proxy for whom it names, either way")
    func bytes() async throws {
        let harness = APIHarness {
            $0.server.port = 0
            $0.server.trustedProxies = ["127.0.0.1"]
            $0.apiKeys = ["shop", "crm"].map { APIHarness.key($0, [.send]) } + [APIHarness.key("viewer", [.read])]
        }
        @Sendable func head(_ key: String, _ peer: String, _ length: Int) -> String {
            "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer chp_\(key)\r\n"
                + "X-Forwarded-For: \(peer)\r\nContent-Type: application/json\r\nContent-Length: \(length)\r\n\r\n"
        }
        let largest = 8 << 20
        try await harness.serve { port, _ in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for key in ["shop", "shop", "shop", "shop", "crm", "crm"] {
                    group.addTask {
                        _ = try await RawClient.converse(port) { outbound in
                            try await outbound.write(ByteBuffer(string: head(key, "192.0.2.1", largest)))
                        }
                    }
                }
                try await eventually("six bodies are held") { harness.api.responder.bodyBytes >= 6 * largest }
                let small = 5000
                for (key, peer, status) in [
                    ("crm", "192.0.2.1", 503), ("crm", "192.0.2.2", 202), ("shop", "192.0.2.2", 202),
                ] {
                    let body = APIHarness.sample()
                    let padding = String(repeating: " ", count: small - body.utf8.count)
                    try await RawClient.run(port) { client in
                        try await client.send(head(key, peer, small) + body + padding)
                        #expect(try await client.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 \(status) "))
                    }
                }
                group.cancelAll()
            }
        }
        #expect(harness.api.responder.bodyBytes == 0)
        let text = try await harness.send(.get, "/metrics", headers: APIHarness.bearer("viewer")).text
        #expect(text.contains(#"chapar_limit_refusals_total{limit="body_bytes_per_peer"} 1"#))
        #expect(text.contains(#"chapar_limit{limit="body_bytes_per_peer"} 50331648"#))
    }

    @Test(
        "is that of the last address a trusted proxy names; addresses named by others do not count",
        arguments: [
            ("10.0.0.1", ["192.0.2.7"], "192.0.2.7"), ("10.0.0.1", ["6.6.6.6, 192.0.2.7"], "192.0.2.7"),
            ("10.0.0.1", ["192.0.2.7, 10.0.0.2"], "192.0.2.7"), ("10.0.0.1", ["6.6.6.6", "192.0.2.7"], "192.0.2.7"),
            ("10.0.0.1", [], "10.0.0.1"), ("10.0.0.1", ["nonsense"], "10.0.0.1"),
            ("10.0.0.1", ["6.6.6.6, nonsense"], "10.0.0.1"), ("192.0.2.9", ["6.6.6.6"], "192.0.2.9"),
            ("10.0.0.1", ["2001:db8:0:1::9"], "2001:db8:0:1::"), ("10.0.0.1", ["[2001:db8:0:1::9]"], "2001:db8:0:1::"),
            ("10.0.0.1", ["::ffff:192.0.2.7"], "192.0.2.7"),
        ]
    )
    func forwarded(connected: String, fields: [String], peer: String) throws {
        let harness = APIHarness { $0.server.trustedProxies = ["10.0.0.0/8"] }
        let snapshot = APISnapshot(harness.state.snapshot, knownKinds: [], uses: KeyUses(), at: start)
        let found = snapshot.peer(try #require(PeerAddress(connected[...])), forwardedFor: fields)
        #expect(found == PeerAddress(peer[...]))
    }

    @Test(
        "is that of a network where a proxy's address is one",
        arguments: [
            ("10.0.0.0/8", "10.255.0.1", true), ("10.0.0.0/8", "11.0.0.1", false), ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false), ("2001:db8::/48", "2001:db8:0:9::1", true),
            ("2001:db8::/48", "2001:db9::1", false), ("::1", "::1", true), ("127.0.0.1", "::1", false),
            ("0.0.0.0/0", "1.2.3.4", true), ("0.0.0.0/0", "2001:db8::1", false),
        ]
    )
    func networks(network: String, address: String, isWithin: Bool) throws {
        #expect(try #require(PeerAddress(address[...])).isWithin(try #require(PeerNetwork(network))) == isWithin)
    }

    @Test(
        "is no network",
        arguments: ["", "10.0.0.0/33", "10.0.0/8", "example.com", "10.0.0.0/-1", "::/129", "10.0.0.0/x"]
    )
    func noNetwork(text: String) { #expect(PeerNetwork(text) == nil) }

    @Test("leaves descriptors to the platforms, whatever is wanted")
    func descriptors() {
        #expect(FileDescriptors.connections(wanted: 10_100, limit: .max) == 10_100)
        #expect(FileDescriptors.connections(wanted: 10_100, limit: 1024) == 768)
        #expect(FileDescriptors.connections(wanted: 10_100, limit: 65_536) == 10_100)
        #expect(FileDescriptors.connections(wanted: 10_100, limit: 8192) == 6144)
        #expect(FileDescriptors.connections(wanted: 10_100, limit: 64) == 16)
    }

    @Test("is no more than half of all requests in progress")
    func progress() throws {
        let admission = Admission()
        let uses = KeyUses()
        let (one, other) = (uses.use(of: "one"), uses.use(of: "other"))
        let first = Caller(name: "one", scopes: [.send], use: one)
        let second = Caller(name: "other", scopes: [.send], use: other)
        for _ in 0..<2 { try admission.enter(first, limit: 4) }
        let refused = #expect(throws: Problem.self) { try admission.enter(first, limit: 4) }
        #expect(refused?.code == "too_many_in_progress")
        for _ in 0..<2 { try admission.enter(second, limit: 4) }
        #expect(throws: Problem.self) { try admission.enter(.everybody, limit: 4) }
        admission.leave(first)
        try admission.enter(first, limit: 4)
    }
}
