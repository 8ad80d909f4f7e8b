import Foundation
import HTTPTypes
import NIOCore
import NIOSSL
import ChaparCore
import ChaparQueue
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// Clients that are broken or mean harm cost at most their own connection: the server goes on, nothing is taken for a
/// request that is none, what was accepted is what is stored, and others are answered all the while.
///
/// Every case follows from its number alone, which a failure names. `CHAPAR_FUZZ=20000` runs so many cases,
/// `CHAPAR_FUZZ=1234...1234` just that one. The server's deadlines are short; `CHAPAR_SLOWNESS=5` makes them five times
/// as long, for a sanitizer under which honest clients could not keep to them.
@Suite("Hostile clients", .serialized, .timeLimit(.minutes(5)))
struct HostileClientTests {
    /// How long a case may take; the deadlines of the server are a small part of it.
    private static let longest = Duration.seconds(30) * slowness
    private static let slowness = ProcessInfo.processInfo.environment["CHAPAR_SLOWNESS"].flatMap(Int.init) ?? 1

    private static let identity = Result {
        let authority = try SandboxCertificateAuthority()
        return (authority.certificatePEM, try authority.serverIdentity())
    }

    /// A server and what clients of its kind need.
    private struct Front {
        let harness: APIHarness
        let tls: NIOSSLContext?

        init(isEncrypted: Bool) throws {
            let (authority, identity) = try HostileClientTests.identity.get()
            harness = APIHarness {
                $0.server.port = 0
                $0.server.maximumBodyBytes = 256 << 10
                guard isEncrypted else { return }
                $0.tls = GatewayConfiguration.TLS(
                    certificates: Array(identity.certificatePEM.utf8),
                    key: Array(identity.privateKeyPEM.utf8)
                )
            }
            guard isEncrypted else {
                tls = nil
                return
            }
            var configuration = TLSConfiguration.makeClientConfiguration()
            configuration.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(authority.utf8)))
            tls = try NIOSSLContext(configuration: configuration)
        }
    }

    @Test("cost their own connection and nothing else", arguments: Dice.cases(200, together: 100))
    func clients(seeds: ClosedRange<Int>) async throws {
        let cases = seeds.map { HostileCase(seed: $0) }
        let complaints = try await withThrowingTaskGroup(of: [String].self) { group in
            for isEncrypted in [false, true] {
                let front = try Front(isEncrypted: isEncrypted)
                group.addTask { try await Self.judge(cases.filter { $0.isEncrypted == isEncrypted }, at: front) }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        for complaint in complaints { Issue.record("\(complaint)") }
    }

    /// The problems found, and the messages of the client that keeps to the rules.
    private final class Notes: Sendable {
        private let state = Mutex((complaints: [String](), honest: 0, isOver: false))

        var complaints: [String] { state.withLock { $0.complaints } }
        var honest: Int { state.withLock { $0.honest } }
        var isOver: Bool { state.withLock { $0.isOver } }
        func complain(_ complaints: [String]) { state.withLock { $0.complaints += complaints } }
        func count() { state.withLock { $0.honest += 1 } }
        func finish() { state.withLock { $0.isOver = true } }
    }

    /// Sends one notification after the other from an address of its own, each of which must be accepted.
    private static func beHonest(_ port: Int, _ tls: NIOSSLContext?, _ notes: Notes) async {
        while !notes.isOver {
            let answer = try? await post("honest", port, tls)
            if answer?.hasPrefix("HTTP/1.1 202 ") != true {
                notes.complain(["an honest client was answered \(answer ?? "nothing")"])
            }
            notes.count()
        }
    }

    /// Runs cases side by side, with a client that keeps to the rules; says what went wrong.
    private static func judge(_ cases: [HostileCase], at front: Front) async throws -> [String] {
        let harness = front.harness
        var limits = ConnectionHandler.Limits()
        limits.request = .seconds(3) * slowness
        limits.refusedBody = .milliseconds(300) * slowness
        limits.write = .seconds(1) * slowness
        let notes = Notes()
        try await harness.serve(limits: limits) { port, _ in
            async let others: Void = beHonest(port, front.tls, notes)
            await withTaskGroup(of: (HostileCase, String?, Bool).self) { group in
                for one in cases {
                    group.addTask {
                        do {
                            let (text, isInOrder) = try await Deadline.run(longest) {
                                try await Self.play(one, port, front.tls)
                            }
                            return (one, text, isInOrder)
                        } catch {
                            notes.complain(["case \(one.seed), \(one.kind): \(error)"])
                            return (one, nil, false)
                        }
                    }
                }
                for await (one, text, isInOrder) in group {
                    guard let text else { continue }
                    let wrong = Self.judge(one, text, isInOrder, harness.store)
                    notes.complain(wrong.map { "case \(one.seed), \(one.kind): \($0)" })
                }
            }
            notes.finish()
            await others
        }
        var text = notes.complaints
        let responder = harness.api.responder
        if responder.load.requests != 0 { text.append("requests in progress: \(responder.load.requests)") }
        if responder.bodyBytes != 0 { text.append("memory set aside: \(responder.bodyBytes)") }
        if responder.peerLoad.peers != 0 { text.append("peers: \(responder.peerLoad.peers)") }
        let stored = harness.store.accepted
        let counted = try await harness.send(.get, "/metrics").text.split(separator: "\n")
            .first {
                $0.hasPrefix(#"chapar_http_requests_total{route="/v1/notifications",method="POST",status="202"} "#)
            }
            .flatMap { $0.split(separator: " ").last.flatMap { Int($0) } }
        if counted ?? 0 != stored.count { text.append("\(counted ?? 0) answered with 202, \(stored.count) stored") }
        let own = stored.count { String(decoding: $0.content, as: UTF8.self).contains("honest") }
        if own != notes.honest { text.append("\(own) of \(notes.honest) honest ones stored") }
        return text
    }

    /// One request of a client that keeps to the rules, from an address of its own.
    private static func post(_ title: String, _ port: Int, _ tls: NIOSSLContext?) async throws -> String {
        let body = APIHarness.sample(content: #"{"title":"\#(title)"}"#)
        let request =
            "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
            + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
        return try await RawClient.converse(port, from: "127.0.0.2", tls: tls) { outbound in
            try await outbound.write(ByteBuffer(string: request))
        }.text
    }

    private static func play(_ one: HostileCase, _ port: Int, _ tls: NIOSSLContext?) async throws -> (String, Bool) {
        return try await RawClient.converse(port, tls: one.kind == .garbageInTLS ? nil : tls) { outbound in
            for piece in one.pieces { try await outbound.write(ByteBuffer(bytes: piece)) }
            while !one.again.isEmpty {
                try await outbound.write(ByteBuffer(bytes: one.again))
                try await Task.sleep(for: one.pause)  // Real time: the client's pace, which the server measures.
            }
            switch one.end {
            case .waits: break
            case .halfCloses: outbound.finish()
            case .leaves: throw RawClient.Ended()
            }
        }
    }

    /// Returns the problems of the answers to one client, and of its stored notifications.
    private static func judge(_ one: HostileCase, _ text: String, _ isInOrder: Bool, _ store: HeldStore) -> [String] {
        var wrong: [String] = []
        let contents = store.accepted.map { String(decoding: $0.content, as: UTF8.self) }
        if contents.contains(where: { $0.contains("inner \(one.seed) ") }) {
            wrong.append("what stood within a request was handled as one: \(text)")
        }
        if contents.contains(where: { $0.contains("bad \(one.seed) ") }) {
            wrong.append("a malformed request was accepted: \(text)")
        }
        let stored = (0..<one.good).map { place in contents.count { $0.contains("good \(one.seed) \(place) ") } }
        if stored.contains(where: { $0 > 1 }) { wrong.append("stored more than once: \(stored)") }
        guard let statuses = statuses(in: text, isWhole: isInOrder) else {
            return one.kind == .garbageInTLS ? wrong : wrong + ["no answers: \(text.prefix(300))"]
        }
        if statuses.count > one.answers { wrong.append("\(statuses) to at most \(one.answers) requests") }
        let accepted = statuses.count { $0 == 202 }
        let known = stored.reduce(0, +)
        if !one.isObscure {
            if one.end != .leaves, known != one.good { wrong.append("\(known) of \(one.good) stored, \(statuses)") }
            if accepted > known { wrong.append("\(accepted) answered with 202, \(known) stored") }
            if isInOrder, accepted < known, one.end != .leaves {
                wrong.append("\(accepted) answered with 202, \(known) stored: \(text)")
            }
        }
        return wrong
    }

    /// The statuses of the final answers in what was read; nil where it is something else.
    private static func statuses(in text: String, isWhole: Bool) -> [Int]? {
        var statuses: [Int] = []
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            guard let end = rest.firstRange(of: Array("\r\n\r\n".utf8)) else { return isWhole ? nil : statuses }
            let head = String(decoding: rest[..<end.lowerBound], as: UTF8.self)
            guard head.hasPrefix("HTTP/1.1 "), let status = Int(head.dropFirst(9).prefix(3)) else { return nil }
            rest = rest[end.upperBound...]
            if status < 200 { continue }
            statuses.append(status)
            let length = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("content-length:") }
                .flatMap { Int($0.drop { $0 != ":" }.dropFirst().drop { $0 == " " }) }
            guard let length, length <= rest.count else { return isWhole ? nil : statuses }
            rest = rest.dropFirst(length)
        }
        return statuses
    }
}
