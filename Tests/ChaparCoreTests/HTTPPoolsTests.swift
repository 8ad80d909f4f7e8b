import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@Suite("Pools by endpoint", .timeLimit(.minutes(1)))
struct HTTPPoolsTests {
    /// Makes pools that answer 200 with their host, once they are let.
    private final class Hosts: HTTPTransport {
        let isHeld = Mutex(false)
        let waiting = Mutex(0)
        let made = Mutex<[String]>([])
        let ended = Mutex<[String]>([])

        func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
            if configuration.endpoint.host == "broken.example" { throw HTTPPoolError("no such proxy") }
            made.withLock { $0.append(configuration.endpoint.host) }
            return Pool(hosts: self, host: configuration.endpoint.host)
        }

        struct Pool: HTTPPool {
            let hosts: Hosts
            let host: String

            func send(_ calls: [HTTPCall], report: @escaping @Sendable ([HTTPReply]) -> Void) async {
                hosts.waiting.withLock { $0 += 1 }
                while hosts.isHeld.withLock({ $0 }) { await Task.yield() }
                hosts.waiting.withLock { $0 -= 1 }
                let replies = calls.indices.map { index in
                    let answer = HTTPAnswer(status: 200, body: Array("\(host)\(calls[index].path)".utf8))
                    return HTTPReply(index: index, result: .success(answer), connection: 1)
                }
                report(replies)
            }

            var status: HTTPPoolStatus {
                host.hasPrefix("dead")
                    ? HTTPPoolStatus(lastConnectFailure: HTTPFailure(.notProcessed, .connect, "nothing at \(host)"))
                    : HTTPPoolStatus(connections: 1, openStreams: 2)
            }

            func replaceConnections() {}
            func shutdown(grace: Duration) async { hosts.ended.withLock { $0.append(host) } }
        }

        func pools(limit: Int) -> HTTPPools {
            HTTPPools(self, HTTPPoolConfiguration(endpoint: HTTPEndpoint(host: "none"), version: .http1), limit: limit)
        }
    }

    private static func call(_ host: String, _ path: String = "/") -> HTTPPools.Call {
        HTTPPools.Call(
            HTTPEndpoint(host: "\(host).example"),
            HTTPCall(HTTPCallTemplate(method: "POST"), path: path)
        )
    }

    /// The bodies of the answers, or the causes of failures, by the place of the call.
    private static func send(_ calls: [HTTPPools.Call], _ pools: HTTPPools) async -> [String] {
        let results = Mutex(Array(repeating: "", count: calls.count))
        await pools.send(calls) { replies in
            results.withLock { results in
                for reply in replies {
                    switch reply.result {
                    case .success(let answer): results[reply.index] += String(decoding: answer.body, as: UTF8.self)
                    case .failure(let failure): results[reply.index] += failure.cause.reason
                    }
                }
            }
        }
        return results.withLock { $0 }
    }

    @Test("Each call goes to its host, and each reply stands at its call's place")
    func places() async {
        let hosts = Hosts()
        let pools = hosts.pools(limit: 4)
        let calls = [Self.call("a", "/1"), Self.call("b", "/2"), Self.call("a", "/3"), Self.call("broken")]
        let expected = ["a.example/1", "b.example/2", "a.example/3", "connect_failed"]
        for _ in 0..<2 { #expect(await Self.send(calls, pools) == expected) }
        #expect(hosts.made.withLock { $0.sorted() } == ["a.example", "b.example"])
    }

    @Test("More hosts than pools are sent to in turn, and the oldest idle pool is closed for a new one")
    func bound() async {
        let hosts = Hosts()
        let pools = hosts.pools(limit: 2)
        let answers = await Self.send((0..<9).map { Self.call("h\($0)") }, pools)
        #expect(answers == (0..<9).map { "h\($0).example/" })
        #expect(pools.statuses.count == 2 && hosts.ended.withLock { $0.count } == 7)
        let others = hosts.pools(limit: 2)
        for host in ["a", "b", "a", "c"] { _ = await Self.send([Self.call(host)], others) }
        #expect(hosts.ended.withLock { $0.last } == "b.example")
    }

    @Test("While all pools are in use a call to another host asks for another try, and no pool in use is closed")
    func full() async throws {
        let hosts = Hosts()
        let pools = hosts.pools(limit: 2)
        hosts.isHeld.withLock { $0 = true }
        async let held = Self.send([Self.call("a"), Self.call("b")], pools)
        try await eventually("both are on their way") { hosts.waiting.withLock { $0 } == 2 }
        #expect(await Self.send([Self.call("c")], pools) == ["queue_full"])
        #expect(hosts.ended.withLock { $0.isEmpty })
        hosts.isHeld.withLock { $0 = false }
        #expect(await held == ["a.example/", "b.example/"])
        #expect(await Self.send([Self.call("c")], pools) == ["c.example/"])
    }

    @Test("One dead host degrades the backend, and only all of them take it down")
    func health() async {
        let hosts = Hosts()
        let pools = hosts.pools(limit: 4)
        _ = await Self.send([Self.call("dead-1"), Self.call("a")], pools)
        #expect(pools.status == HTTPPoolStatus(connections: 1, openStreams: 2))
        let degraded = BackendHealth(pools.statuses)
        #expect(degraded.status == .degraded && degraded.inFlight == 2)
        #expect(degraded.detail == "1 of 2 hosts cannot be reached: nothing at dead-1.example")
        #expect(BackendHealth(pools.statuses, alert: "wrong key", severity: .down).detail == "wrong key")
        let none = hosts.pools(limit: 4)
        #expect(BackendHealth(none.statuses).status == .ok)
        _ = await Self.send([Self.call("dead-1"), Self.call("dead-2")], none)
        #expect(BackendHealth(none.statuses).status == .down && none.status.outage != nil)
    }

    @Test("After the shutdown every pool has ended, and a call fails as cancelled")
    func shutdown() async {
        let hosts = Hosts()
        let pools = hosts.pools(limit: 4)
        _ = await Self.send([Self.call("a"), Self.call("b")], pools)
        await pools.shutdown(grace: .zero)
        #expect(hosts.ended.withLock { $0.sorted() } == ["a.example", "b.example"])
        #expect(await Self.send([Self.call("a"), Self.call("c")], pools) == ["cancelled", "cancelled"])
    }

    static let addresses: [(String, String?)] = [
        ("https://a.notify.example/?token=Ab%2b", "https://a.notify.example/?token=Ab%2b"),
        ("HTTPS://A.Notify.Example:443/W/Q?t=Z", "https://a.notify.example/W/Q?t=Z"),
        ("https://a.notify.example", "https://a.notify.example/"),
        ("https://a.notify.example?t=1", "https://a.notify.example/?t=1"),
        ("https://a.notify.example:8443/x", "https://a.notify.example:8443/x"),
        ("https://u@a.notify.example/", nil), ("https://a.notify.example/#f", nil), ("ftp://a/", nil), ("", nil),
        ("https://a.notify.example/a b", nil), ("https://a.notify.example/\r\nx: y", nil), ("/x", nil),
        ("https://a.notify.example/ö", nil), ("https://a/\(String(repeating: "x", count: 4_096))", nil),
    ]

    @Test("An address is read into one form, and prints without what is secret in it", arguments: addresses)
    func address(text: String, url: String?) {
        let address = HTTPAddress(url: text)
        #expect(address?.url == url)
        #expect(address.map { "\($0)" }?.contains("?") != true)
    }
}
