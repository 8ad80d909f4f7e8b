import Foundation
import NIOCore
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparHTTP

/// Opening connections: what fails at once, what is tried again, and how politely.
@Suite("Connecting", .serialized, .timeLimit(.minutes(1)))
struct ConnectTests {
    struct Distrust: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let identity: @Sendable () throws -> TestAuthority.Identity
    }

    static let distrusted = [
        Distrust(testDescription: "unknown authority") { try TestAuthority.stranger.identity() },
        Distrust(testDescription: "expired") { try TestAuthority.shared.identity(notValidAfter: .now - 3600) },
        Distrust(testDescription: "another host") {
            try TestAuthority.shared.identity(names: ["elsewhere.example"], withAddress: false)
        },
    ]

    @Test("A certificate that is not to be trusted fails all waiting calls at once", arguments: distrusted)
    func distrust(_ distrust: Distrust) async throws {
        try await withServer({ $0.identity = try distrust.identity() }) { server in
            try await withPool(port: server.port, host: "localhost") { pool in
                let replies = await pool.replies(to: .posts(5))
                #expect(replies.failures.map(\.cause) == Array(repeating: .tls, count: 5))
                #expect(replies.failures.allSatisfy { $0.stage == .notProcessed })
                #expect(
                    replies.failures.allSatisfy { $0.detail.lowercased().contains("certificate") },
                    "\(replies.failures[0].detail)"
                )
                #expect(server.requests.isEmpty)
                #expect(pool.status.lastConnectFailure?.cause == .tls)
            }
        }
    }

    @Test(
        "A host name is verified by SNI, an address by the certificate's addresses",
        arguments: ["localhost", "127.0.0.1"]
    )
    func verified(host: String) async throws {
        try await withServer { server in
            try await withPool(port: server.port, host: host) { pool in
                #expect(await pool.status(of: .post(bytes: 1)) == 200)
            }
        }
    }

    @Test("A peer without HTTP/2 fails the calls at once and is named", arguments: [["http/1.1"], []])
    func noHTTP2(protocols: [String]) async throws {
        try await withServer({ $0.protocols = protocols }) { server in
            try await withPool(port: server.port) { pool in
                let failure = await pool.failure(of: .post(bytes: 1))
                #expect(failure?.stage == .notProcessed)
                #expect(failure?.cause == .protocolNotNegotiated)
            }
        }
    }

    @Test("A peer that asks for a client certificate gets it")
    func clientCertificate() async throws {
        try await withServer({ $0.clientTrustPEM = try TestAuthority.shared.certificatePEM }) { server in
            let identity = try TestAuthority.shared.identity(names: ["client"], isClient: true)
            let change: (inout HTTPPoolConfiguration) -> Void = {
                $0.clientCertificate = .init(chainPEM: identity.certificatePEM, keyPEM: Secret(identity.keyPEM))
            }
            try await withPool(port: server.port, change) { pool in
                #expect(await pool.status(of: .post(bytes: 1)) == 200)
            }
            try await withPool(port: server.port, { $0.requestTimeout = .seconds(5) }) { pool in
                let failure = await pool.failure(of: .post(bytes: 1))
                #expect(failure?.stage == .notProcessed)
                #expect(failure?.cause == .tls, "\(failure?.description ?? "no failure")")
            }
        }
    }

    @Test("A name that does not resolve is told in the system's words, without a type of the program's libraries")
    func unknownName() throws {
        let error = #expect(throws: SocketAddressError.UnknownHost.self) {
            try SocketAddress.makeAddressResolvingHost("no such host", port: 1)
        }
        let sentence = try HTTPFailure.sentence(#require(error))
        #expect(sentence.hasSuffix("(no such host)") && !sentence.contains("SocketAddressError"), "\(sentence)")
    }

    @Test("A refused connection is tried again with a backoff that all callers share, until a server listens")
    func refusedThenUp() async throws {
        let port = try await PeerProcess.freePort()
        let change: (inout HTTPPoolConfiguration) -> Void = {
            $0.reconnectBackoff = .milliseconds(20) ... .milliseconds(100)
        }
        try await withPool(port: port, change) { pool in
            async let replies = pool.replies(to: .posts(100))
            try await eventually("an attempt failed") { pool.status.lastConnectFailure?.cause == .connect }
            #expect(pool.status.waiting == 100)
            let server = try await ScriptedServer.start(port: port)
            #expect(await replies.statuses.count == 100)
            #expect(pool.status.lastConnectFailure == nil)
            #expect(server.connections.count == 1)
            try await server.stop()
        }
    }

    @Test("One attempt at a time: many callers do not make a storm")
    func noStorm() async throws {
        let door = try await closedDoor()
        let change: (inout HTTPPoolConfiguration) -> Void = {
            $0.reconnectBackoff = .milliseconds(100) ... .milliseconds(100)
            $0.requestTimeout = .milliseconds(500)
        }
        var tuning = HTTP2Tuning.quick
        tuning.jitter = { 0.5 }
        try await withPool(port: door.port, tuning: tuning, change) { pool in
            let taken = await ContinuousClock().measure {
                await withTaskGroup(of: HTTPFailure?.self) { tasks in
                    for _ in 0..<200 { tasks.addTask { await pool.failure(of: .post(bytes: 1)) } }
                    for await failure in tasks { #expect(failure?.stage == .notProcessed) }
                }
            }
            // About 500 ms, and longer where it takes a while until the last of them asks.
            #expect(door.connections <= 1 + Int(taken / .milliseconds(50)), "at least 50 ms between two attempts")
        }
        try await door.close()
    }

    @Test("Calls whose deadline comes before the next attempt fail at once, with the cause of the last one")
    func noTimeLeft() async throws {
        let port = try await PeerProcess.freePort()
        let change: (inout HTTPPoolConfiguration) -> Void = {
            $0.reconnectBackoff = .seconds(3600) ... .seconds(3600)
        }
        var tuning = HTTP2Tuning.quick
        tuning.jitter = { 1 }
        try await withPool(port: port, tuning: tuning, change) { pool in
            let clock = ContinuousClock()
            let taken = await clock.measure {
                let failure = await pool.failure(of: .post(bytes: 1))
                #expect(failure?.stage == .notProcessed)
                #expect(failure?.cause == .connect)
                let second = await pool.failure(of: .post(bytes: 1))
                #expect(second?.cause == .connect)
                let detail = second?.detail ?? ""
                #expect(detail.contains("Connection refused (errno") && !detail.contains("reset"), "\(detail)")
            }
            #expect(taken < .seconds(15), "nobody waits for the deadline of 20 s")
        }
    }

    @Test("A peer that takes the connection and then is silent is given up after the connect timeout")
    func silentPeer() async throws {
        let door = try await silentDoor()
        let failure = try await givenUp(port: door.port, after: .milliseconds(500))
        #expect(failure?.stage == .notProcessed)
        #expect(failure?.cause == .connect)
        #expect(failure?.detail.contains("TLS") == true, "\(failure?.detail ?? "")")
        try await door.close()
    }

    @Test("A peer that never sends SETTINGS is given up, too")
    func noSettings() async throws {
        try await withServer({ $0.settings = nil }) { server in
            // Long enough for TLS on a busy machine.
            let failure = try await givenUp(port: server.port, after: .seconds(2))
            #expect(failure?.cause == .connect)
            #expect(failure?.detail.contains("SETTINGS") == true, "\(failure?.detail ?? "")")
        }
    }

    /// Why a call fails whose first attempt to connect takes longer than the timeout.
    ///
    /// It ends with that attempt, for the next one would come after its own deadline, which is far off.
    private func givenUp(port: Int, after timeout: Duration) async throws -> HTTPFailure? {
        var tuning = HTTP2Tuning.quick
        tuning.jitter = { 1 }
        let change: (inout HTTPPoolConfiguration) -> Void = {
            $0.connectTimeout = timeout
            $0.reconnectBackoff = .seconds(3600) ... .seconds(3600)
        }
        return try await withPool(port: port, tuning: tuning, change) { pool in
            let clock = ContinuousClock()
            let start = clock.now
            let failure = await pool.failure(of: .post(bytes: 1))
            #expect(clock.now - start < .seconds(15), "nobody waits for the deadline of 20 s")
            return failure
        }
    }

    @Test("Through a proxy TLS runs inside the tunnel")
    func throughProxy() async throws {
        let proxy = try await proxy()
        try await withServer { server in
            let change: (inout HTTPPoolConfiguration) -> Void = {
                $0.proxy = HTTPEndpoint(scheme: .http, host: "127.0.0.1", port: proxy.port)
            }
            try await withPool(port: server.port, host: "localhost", change) { pool in
                let replies = await pool.replies(to: .posts(50))
                #expect(replies.statuses.count == 50)
                #expect(proxy.connections == 1)
            }
        }
        try await proxy.close()
    }

    @Test(
        "A proxy gets the user and the password; one that does not take them is named, they are not",
        arguments: [("user", "pass:wörd", true), ("user", "planted", false), ("", "", false)]
    )
    func proxyCredentials(user: String, password: String, isTaken: Bool) async throws {
        // RFC 7617, section 2.1: UTF-8 before base64.
        let proxy = try await proxy(credentials: "dXNlcjpwYXNzOnfDtnJk")
        try await withServer { server in
            let change: (inout HTTPPoolConfiguration) -> Void = {
                $0.proxy = HTTPEndpoint(scheme: .http, host: "127.0.0.1", port: proxy.port)
                guard !user.isEmpty else { return }
                $0.proxyCredentials = HTTPProxyCredentials(user: user, password: Secret(password))
            }
            try await withPool(port: server.port, host: "localhost", change) { pool in
                guard !isTaken else {
                    #expect(await pool.replies(to: .posts(5)).statuses.count == 5)
                    return
                }
                let failure = await pool.failure(of: .post(bytes: 1))
                #expect(failure?.cause == .proxy)
                let words = user.isEmpty ? "it wants a user and a password" : "it does not take the user and password"
                #expect(failure?.detail.contains(words) == true, "\(failure as Any)")
                #expect(failure?.detail.contains("planted") == false)
            }
        }
        try await proxy.close()
    }

    @Test(
        "A proxy that refuses the tunnel fails the calls at once",
        arguments: [
            "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "HTTP/1.1 502 Bad Gateway\r\n\r\n", "what?\r\n\r\n",
        ]
    )
    func proxyRefuses(answer: String) async throws {
        let proxy = try await proxy(answer: answer)
        let change: (inout HTTPPoolConfiguration) -> Void = {
            $0.proxy = HTTPEndpoint(scheme: .http, host: "127.0.0.1", port: proxy.port)
        }
        try await withPool(port: 443, change) { pool in
            let failure = await pool.failure(of: .post(bytes: 1))
            #expect(failure?.stage == .notProcessed)
            #expect(failure?.cause == .proxy)
        }
        try await proxy.close()
    }
}
