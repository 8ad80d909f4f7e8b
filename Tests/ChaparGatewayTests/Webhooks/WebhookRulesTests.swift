import Foundation
import NIOCore
import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparDelivery

@Suite("The rules of webhooks")
struct WebhookRulesTests {
    // MARK: Signatures

    @Test("the specification's vector has the specification's signature")
    func vector() throws {
        let secret = try #require(WebhookSecret(Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")))
        let body = Array(#"{"test": 2432232314}"#.utf8)
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek"
        let signature = secret.signature(id: id, timestamp: 1_614_265_330, body: body)
        #expect(signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        #expect(secret.verifies(signature, id: id, timestamp: 1_614_265_330, body: body))
        #expect(!secret.verifies(signature, id: id, timestamp: 1_614_265_331, body: body))
        #expect(!secret.verifies(signature, id: id + "x", timestamp: 1_614_265_330, body: body))
        #expect(!secret.verifies(signature, id: id, timestamp: 1_614_265_330, body: body + [32]))
    }

    @Test("keys are random, in standard base64, and others are refused")
    func keys() {
        let made = (0..<200).map { _ in WebhookSecret.make().text.reveal() }
        #expect(Set(made).count == made.count)
        #expect(made.allSatisfy { $0.hasPrefix("whsec_") && !$0.contains("-") && !$0.dropFirst(6).contains("_") })
        for text in [
            "", "whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2La_-Sw",
        ] {
            #expect(WebhookSecret(Secret(text)) == nil, "\(text)")
        }
    }

    @Test("after a rotation both keys sign, the new one first, until the old one's time is over")
    func rotation() throws {
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        let (old, new) = (WebhookSecret.make(), WebhookSecret.make())
        var secrets = WebhookSecrets([old])
        secrets.rotate(to: new, keepingOthersUntil: now.addingTimeInterval(60), now: now)
        let during = secrets.signatures(id: "msg_1", timestamp: 1_800_000_059, body: [1])
        #expect(during.split(separator: " ", omittingEmptySubsequences: false).count == 2)
        #expect(during.hasPrefix(new.signature(id: "msg_1", timestamp: 1_800_000_059, body: [1])))
        #expect(old.verifies(during, id: "msg_1", timestamp: 1_800_000_059, body: [1]))
        let after = secrets.signatures(id: "msg_1", timestamp: 1_800_000_060, body: [1])
        #expect(!after.contains(" ") && !old.verifies(after, id: "msg_1", timestamp: 1_800_000_060, body: [1]))
        #expect(new.verifies(after, id: "msg_1", timestamp: 1_800_000_060, body: [1]))
        #expect(WebhookSecrets(encoded: secrets.encoded)?.all.map(\.text) == [new.text, old.text])
    }

    // MARK: Addresses

    private func mistake(_ url: String, at addresses: [String], allowing: [String] = [], ports: [Int] = []) throws
        -> String?
    {
        var configuration = GatewayConfiguration()
        configuration.webhooks.allowedNetworks = allowing
        configuration.webhooks.allowedPorts = ports
        do throws(WebhookURL.Mistake) {
            let address = try WebhookURL(url)
            let bytes = addresses.compactMap { try? SocketAddressBytes($0) }
            return WebhookGuard(configuration).refusal(of: address, at: bytes.map(\.bytes), own: [])?.code
        } catch {
            return error.code
        }
    }

    @Test(
        "an address inside is refused in every form",
        arguments: [
            "127.0.0.1", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1",
            "0.0.0.0",
            "192.0.2.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fd00::1", "ff02::1",
            "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001::1", "2001:db8::1",
            "::ffff:0:127.0.0.1", "64:ff9b:1::7f00:1", "100::1", "5f00::1", "fec0::1", "4000::1", "2001:20::1",
            "3fff::1",
        ]
    )
    func inside(address: String) throws {
        #expect(try mistake("https://example.com/", at: [address]) == "internal_address")
        #expect(
            try mistake("https://example.com/", at: ["93.184.215.14", address]) == "internal_address",
            "one of two"
        )
    }

    @Test("public addresses pass", arguments: ["93.184.215.14", "172.32.0.1", "100.128.0.1", "2606:2800:21f::1"])
    func outside(address: String) throws {
        #expect(try mistake("https://example.com/", at: [address]) == nil)
    }

    @Test("an address must be https, without user and fragment, on an allowed port, under a public name")
    func forms() throws {
        let at = ["93.184.215.14"]
        #expect(try mistake("ftp://example.com/", at: at) == "bad_scheme")
        #expect(try mistake("example.com", at: at) == "bad_url")
        #expect(try mistake("https://user:password@example.com/", at: at) == "userinfo")
        #expect(try mistake("https://example.com/#part", at: at) == "fragment")
        #expect(try mistake("https://example.com:8443/", at: at) == "bad_port")
        #expect(try mistake("https://example.com:8443/", at: at, ports: [8443]) == nil)
        for port in ["0", "65536", "99999999999999999999", "18446744073709552059"] {
            #expect(try mistake("https://example.com:\(port)/", at: at) == "bad_port", "\(port)")
        }
        for url in ["https://example.com:443/", "https://example.com:/", "https://[2606:2800:21f::1]/"] {
            #expect(try mistake(url, at: at) == nil, "\(url)")
        }
        #expect(try mistake("http://example.com/", at: at) == "not_encrypted")
        #expect(try mistake("https://xn--mgba3a4f16a.example/hook", at: at) == nil)
        #expect(try WebhookURL("https://XN--bcher-kva.example/").authority == "xn--bcher-kva.example")
        #expect(try mistake("https://b\u{FC}cher.example/", at: at) == "bad_url", "in ASCII")
        #expect(try mistake("https://example%2ecom/", at: at) == "bad_url")
        for name in ["intranet", "printer.local", "db.internal", "x.localhost"] {
            #expect(try mistake("https://\(name)/", at: at) == "internal_name", "\(name)")
        }
        #expect(try mistake("https://example.com/", at: []) == "unknown_host")
    }

    @Test("names whose servers do not answer take no thread that others need, and one thread each")
    func slowNames() async throws {
        let isOpen = Mutex(false)
        let count = Mutex<[String: Int]>([:])
        struct Unknown: Error {}
        let resolver = WebhookResolver { host, port, isNumber in
            if isNumber { throw Unknown() }
            count.withLock { $0[host, default: 0] += 1 }
            while host != "quick", !isOpen.withLock({ $0 }) { Thread.sleep(forTimeInterval: 0.005) }
            return [try SocketAddress(ipAddress: "192.0.2.1", port: port)]
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<40 {
                group.addTask { _ = try await resolver.addresses(of: "slow", 443, isAttempt: true) }
            }
            for place in 0..<40 {
                group.addTask { _ = try await resolver.addresses(of: "added\(place)", 443, isAttempt: false) }
            }
            // Whatever comes of it, the threads are let go.
            defer { isOpen.withLock { $0 = true } }
            try await eventually("the lookups have begun", within: .seconds(10)) {
                count.withLock { $0["slow"] == 1 && $0.count >= 5 }
            }
            let found = try await Deadline.run(.seconds(10)) {
                try await resolver.addresses(of: "quick", 443, isAttempt: true)
            }
            #expect(found.first?.port == 443)
            #expect(count.withLock { $0["slow"] } == 1)
            isOpen.withLock { $0 = true }
            try await group.waitForAll()
        }
        #expect(count.withLock { $0["slow"] } == 1)
    }

    @Test("an operator's network is allowed with its ports and names, and no other")
    func allowed() throws {
        #expect(try mistake("http://hooks:9000/", at: ["10.1.2.3"], allowing: ["10.1.0.0/16"]) == nil)
        #expect(try mistake("http://hooks:9000/", at: ["::ffff:10.1.2.3"], allowing: ["10.1.0.0/16"]) == nil)
        #expect(try mistake("http://hooks:9000/", at: ["10.2.2.3"], allowing: ["10.1.0.0/16"]) == "internal_address")
        #expect(try mistake("http://hooks:8080/", at: ["127.0.0.1"], allowing: ["127.0.0.0/8"]) == "own_address")
        #expect(try mistake("http://x:9/", at: ["fd00::1"], allowing: ["fd00::/127"]) == nil)
        #expect(try mistake("http://x:9/", at: ["fd00::2"], allowing: ["fd00::/127"]) == "internal_address")
    }

    // MARK: Retries and disabling

    @Test("the waits are those of the specification, with a fifth of jitter, and end after the tenth attempt")
    func table() {
        #expect(WebhookRetries.table == [0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400])
        #expect(WebhookRetries.wait(after: 1, by: 1) == 6)
        #expect(WebhookRetries.wait(after: 2, by: -1) == 240)
        #expect(WebhookRetries.wait(after: 9, by: 0) == 86_400)
        #expect(WebhookRetries.wait(after: 10) == nil)
    }

    @Test("the page shows the waits that are made")
    func page() throws {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../docs/Webhooks.md").standardizedFileURL
        let text = try String(contentsOf: file, encoding: .utf8)
        let row = try #require(text.split(separator: "\n").first { $0.hasPrefix("| seconds |") })
        #expect(row.split(separator: "|").compactMap { Double($0.filter { $0 != " " }) } == WebhookRetries.table)
        for type in WebhookType.allCases { #expect(text.contains("`\(type.rawValue)`"), "\(type.rawValue)") }
    }

    private static let start = Date(timeIntervalSince1970: 1_800_000_000)

    @Test("five days of failure disable, after warnings; one success begins anew")
    func fiveDays() {
        var memory = WebhookMemory()
        var seen: [String] = []
        for hour in 0..<300 {
            switch memory.take(WebhookAnswer(status: 500), at: Self.start.addingTimeInterval(Double(hour) * 3_600)) {
            case .warn(let percent): seen.append("\(percent)% at \(hour)")
            case .disable(let reason): seen.append("\(reason.rawValue) at \(hour)")
            default: break
            }
            if seen.last?.hasPrefix("failing") == true { break }
            memory = WebhookMemory(encoded: memory.encoded)
        }
        #expect(seen == ["50% at 72", "70% at 96", "90% at 120", "failing at 132"])
        _ = memory.take(WebhookAnswer(status: 204), at: Self.start)
        #expect(memory.failingSince == nil && memory.disabledFrom == nil && !memory.isBroken)
    }

    @Test("a quiet endpoint that fails once a week is not disabled")
    func quietEndpoint() {
        var memory = WebhookMemory()
        for week in 0..<20 {
            let now = Self.start.addingTimeInterval(Double(week) * 7 * 86_400)
            #expect(memory.take(WebhookAnswer(status: 500), at: now) == nil)
            #expect(memory.take(WebhookAnswer(.timeout, ""), at: now.addingTimeInterval(300)) == nil)
        }
        #expect(memory.disabledFrom == nil)
    }

    @Test("410 disables at once, three refused addresses in a row as well")
    func atOnce() {
        var memory = WebhookMemory()
        #expect(memory.take(WebhookAnswer(status: 410), at: Self.start) == .disable(.gone))
        memory = WebhookMemory()
        let refused = WebhookAnswer(.address, "")
        #expect(memory.take(refused, at: Self.start) == nil)
        #expect(memory.take(WebhookAnswer(.dns, ""), at: Self.start) == nil)
        #expect(memory.take(refused, at: Self.start) == nil)
        #expect(memory.take(refused, at: Self.start) == nil)
        #expect(memory.take(refused, at: Self.start) == .disable(.address))
    }

    @Test("an answer that asks for less pauses the endpoint for its time, else longer each time")
    func throttling() {
        var memory = WebhookMemory()
        var answer = WebhookAnswer(status: 429)
        answer.retryAfter = .seconds(120)
        _ = memory.take(answer, at: Self.start)
        #expect(memory.notBefore == Self.start.addingTimeInterval(120))
        memory = WebhookMemory()
        let waits = (0..<4).map { _ -> Double in
            memory.notBefore = nil
            _ = memory.take(WebhookAnswer(status: 503), at: Self.start)
            _ = memory.take(WebhookAnswer(status: 502), at: Self.start)
            return memory.notBefore?.timeIntervalSince(Self.start) ?? 0
        }
        #expect(waits == [5, 5, 5, 5], "503 without a time is a failure like others")
    }

    // MARK: Filters and ids

    @Test("patterns name types, and an unknown one makes no filter")
    func filters() throws {
        let filter = try #require(WebhookFilter(["delivery.failed", "token.*"]))
        #expect(
            WebhookType.allCases.filter(filter.matches).map(\.rawValue) == [
                "delivery.failed", "token.invalidated", "token.quarantined",
            ]
        )
        #expect(
            WebhookFilter(["delivery.lost"]) == nil && WebhookFilter(["*"]) == nil && WebhookFilter(["tok.*"]) == nil
        )
        #expect(WebhookFilter(WebhookType.byDefault) != nil)
    }

    @Test("the number in an id is read for its own endpoint only")
    func ids() {
        #expect(WebhookEvent.number(in: "msg_abc_17_kx", tag: "abc") == 17)
        for id in ["msg_abd_17_kx", "msg_abc_n17_kx", "msg_abc_b1-2x2_kx", "msg_abc_-17_kx", "msg_abc_17", "x"] {
            #expect(WebhookEvent.number(in: id, tag: "abc") == nil, "\(id)")
        }
    }
}

/// The bytes of an address in its text form.
private struct SocketAddressBytes {
    let bytes: [UInt8]

    struct Unreadable: Error {}

    init(_ text: String) throws {
        for (family, count) in [(AF_INET, 4), (AF_INET6, 16)] {
            var bytes = [UInt8](repeating: 0, count: count)
            if inet_pton(family, text, &bytes) == 1 {
                self.bytes = bytes
                return
            }
        }
        throw Unreadable()
    }
}
